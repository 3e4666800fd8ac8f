package code

import (
	"fmt"
	"path"
	"strings"
)

// Bounds of a pattern and of a list of patterns.
const (
	maxPattern  = 1000 // bytes
	maxPatterns = 256
)

// glob is a pattern for paths in the form of git's ignore files: * and ? stand for anything
// except a slash, [a-z] for one character, ** for any number of directories. A pattern with
// a slash before its end applies to the whole path, any other pattern to the name of a file
// or a directory anywhere. A slash at the end means a directory.
type glob struct {
	parts   []string // parts between the slashes
	name    bool     // whether it applies only to the name
	dir     bool     // whether it applies only to directories
	literal bool     // whether no part contains a special character
}

// newGlob parses a pattern; the error says what is wrong with it.
func newGlob(pattern string) (glob, error) {
	if len(pattern) > maxPattern {
		return glob{}, fmt.Errorf("pattern %.40q... is longer than %d bytes", pattern, maxPattern)
	}
	rest := strings.TrimPrefix(pattern, "./")
	var g glob
	if cut, ok := strings.CutSuffix(rest, "/"); ok {
		g.dir, rest = true, cut
	}
	g.name = !strings.Contains(rest, "/")
	rest = strings.TrimPrefix(rest, "/")
	if rest == "" {
		return glob{}, fmt.Errorf("pattern %q is empty", pattern)
	}
	g.parts = strings.Split(rest, "/")
	g.literal = !strings.ContainsAny(rest, `*?[\`)
	for _, part := range g.parts {
		if why := faultOf(part); why != "" {
			return glob{}, fmt.Errorf("pattern %q: %s", pattern, why)
		}
	}
	return g, nil
}

// faultOf returns what is wrong with a part of a pattern, or an empty text.
func faultOf(part string) string {
	for i := 0; i < len(part); i++ {
		switch part[i] {
		case '\\':
			if i++; i == len(part) {
				return "nothing follows its last backslash"
			}
		case '[':
			end := classEnd(part, i)
			if end < 0 {
				return "a bracket is not closed"
			}
			i = end - 1
		}
	}
	return ""
}

// match reports whether a path matches. The path begins at the directory of the pattern.
func (g glob) match(file string, dir bool) bool {
	if g.dir && !dir {
		return false
	}
	if g.name {
		base := path.Base(file)
		if g.literal {
			return base == g.parts[0]
		}
		return matchPart(g.parts[0], base)
	}
	if g.literal {
		return file == strings.Join(g.parts, "/")
	}
	return matchParts(g.parts, strings.Split(file, "/"))
}

// matchParts reports whether the names of a path match the parts of a pattern. If the
// comparison fails after a **, this ** takes one more name; an earlier ** never needs to.
func matchParts(parts, names []string) bool {
	p, n, star, back := 0, 0, -1, 0
	for n < len(names) {
		switch {
		case p < len(parts) && parts[p] == "**":
			star, back = p, n
			if p++; p == len(parts) {
				return true
			}
			continue
		case p < len(parts) && matchPart(parts[p], names[n]):
			p, n = p+1, n+1
			continue
		case star < 0:
			return false
		}
		back++
		p, n = star+1, back
	}
	return p == len(parts) // a ** at the end needs a name
}

// matchPart reports whether a name matches one part of a pattern. If the comparison fails
// after a star, this star takes one more byte; an earlier star never needs to.
func matchPart(pattern, name string) bool {
	p, n, star, back := 0, 0, -1, 0
	for n < len(name) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				star, back = p, n
				p++
				continue
			}
			if width, ok := matchByte(pattern, p, name[n]); ok {
				p, n = p+width, n+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		back++
		p, n = star+1, back
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchByte reports whether a byte matches the element at an offset of a pattern, and
// returns the length of this element.
func matchByte(pattern string, at int, c byte) (width int, ok bool) {
	switch pattern[at] {
	case '?':
		return 1, true
	case '[':
		end := classEnd(pattern, at)
		return end - at, inClass(pattern[at+1:end-1], c)
	case '\\':
		return 2, pattern[at+1] == c
	}
	return 1, pattern[at] == c
}

// classEnd returns the offset after the class of characters that begins at an offset of a
// pattern, or -1 if the class does not end.
func classEnd(pattern string, at int) int {
	i := at + 1
	if i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^') {
		i++
	}
	if i < len(pattern) && pattern[i] == ']' {
		i++ // a ] at the beginning is a member
	}
	for ; i < len(pattern); i++ {
		switch {
		case pattern[i] == ']':
			return i + 1
		case pattern[i] == '\\':
			i++
		case strings.HasPrefix(pattern[i:], "[:"):
			if end := strings.Index(pattern[i+2:], ":]"); end >= 0 {
				i += end + 3
			}
		}
	}
	return -1
}

// inClass reports whether c is in a class of characters, which is given without its
// brackets.
func inClass(class string, c byte) bool {
	not := class != "" && (class[0] == '!' || class[0] == '^')
	if not {
		class = class[1:]
	}
	in := false
	for i := 0; i < len(class); i++ {
		if named, ok := strings.CutPrefix(class[i:], "[:"); ok {
			if name, _, ok := strings.Cut(named, ":]"); ok {
				in = in || inNamed(name, c)
				i += len(name) + 3
				continue
			}
		}
		if class[i] == '\\' && i+1 < len(class) {
			i++
		}
		low, high := class[i], class[i]
		if i+2 < len(class) && class[i+1] == '-' {
			if i += 2; class[i] == '\\' && i+1 < len(class) {
				i++
			}
			high = class[i]
		}
		in = in || low <= c && c <= high
	}
	return in != not
}

// inNamed reports whether c is in a class that has a name, such as [:digit:].
func inNamed(name string, c byte) bool {
	lower, upper, digit := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9'
	switch name {
	case "alpha":
		return lower || upper
	case "lower":
		return lower
	case "upper":
		return upper
	case "digit":
		return digit
	case "alnum":
		return lower || upper || digit
	case "xdigit":
		return digit || 'a' <= c|0x20 && c|0x20 <= 'f'
	case "space":
		return c == ' ' || '\t' <= c && c <= '\r'
	case "blank":
		return c == ' ' || c == '\t'
	case "punct":
		return '!' <= c && c <= '~' && !lower && !upper && !digit
	case "cntrl":
		return c < ' ' || c == 0x7f
	case "print":
		return ' ' <= c && c <= '~'
	case "graph":
		return '!' <= c && c <= '~'
	}
	return false
}

// globs are the patterns of a caller.
type globs []glob

func newGlobs(field string, patterns []string) (globs, error) {
	if len(patterns) > maxPatterns {
		return nil, fmt.Errorf("%s: %d patterns; at most %d are allowed", field, len(patterns), maxPatterns)
	}
	all := make(globs, 0, len(patterns))
	for _, p := range patterns {
		g, err := newGlob(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		all = append(all, g)
	}
	return all, nil
}

// match reports whether one of the patterns matches.
func (all globs) match(file string, dir bool) bool {
	for _, g := range all {
		if g.match(file, dir) {
			return true
		}
	}
	return false
}
