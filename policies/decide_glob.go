package policies

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"belljar.dev/policies/shell"
)

// proof says how sure it is that a rule matches a part of a call.
type proof int

const (
	no   proof = iota // the rule does not match
	may               // the rule may match: something is only known when the call runs
	must              // the rule matches
)

// not returns the proof that the rule does not match.
func (p proof) not() proof { return must - p }

// glob is a pattern over a sequence of elements: the words of a command or the segments of
// a path. "**" stands for any number of elements, also for zero. In an element "*" stands
// for any characters and {a,b} for one of several texts.
type glob struct {
	text     string
	elements []element
}

// element matches one word or segment. If any is set, it matches each sequence of them.
type element struct {
	any    bool
	choice []string // the alternatives, which may contain stars
}

// Bounds of one pattern.
const (
	maxPattern  = 4096 // bytes
	maxElements = 64
	maxChoices  = 256 // alternatives of one element, after {a,b}{c,d} has become ac, ad, bc, bd
)

// everything reports whether the pattern is "**", which matches everything.
func (g glob) everything() bool { return len(g.elements) == 1 && g.elements[0].any }

// compile makes a glob of a pattern that was split into elements.
func compile(text string, split []string) (glob, error) {
	g := glob{text: text}
	switch {
	case len(text) > maxPattern:
		return g, fmt.Errorf("has %d bytes, more than %d", len(text), maxPattern)
	case len(split) > maxElements:
		return g, fmt.Errorf("has %d elements, more than %d", len(split), maxElements)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return g, errors.New("contains a control character")
	}
	for _, s := range split {
		e, err := compileElement(s)
		if err != nil {
			return g, err
		}
		// "** **" means the same as "**" and would only cost time.
		if n := len(g.elements); e.any && n > 0 && g.elements[n-1].any {
			continue
		}
		g.elements = append(g.elements, e)
	}
	return g, nil
}

func compileElement(s string) (element, error) {
	switch s {
	case "**":
		return element{any: true}, nil
	case "[", "[[": // commands of the shell
		return element{choice: []string{s}}, nil
	}
	switch i := strings.IndexAny(s, `?[]\"'`); {
	case strings.Contains(s, "**"):
		return element{}, fmt.Errorf("%q: ** must be a whole word or segment; inside of one write *", s)
	case i >= 0:
		return element{}, fmt.Errorf("%q: %q has no meaning here; the wildcards are *, ** and {a,b}", s, s[i])
	}
	choice := []string{""}
	for rest := s; rest != ""; {
		before, after, found := strings.Cut(rest, "{")
		if strings.Contains(before, "}") {
			return element{}, fmt.Errorf("%q: a } without its {", s)
		}
		for i := range choice {
			choice[i] += before
		}
		if !found {
			break
		}
		inside, tail, closed := strings.Cut(after, "}")
		switch {
		case !closed:
			return element{}, fmt.Errorf("%q: a { without its }", s)
		case strings.Contains(inside, "{"):
			return element{}, fmt.Errorf("%q: alternatives inside alternatives", s)
		}
		options := strings.Split(inside, ",")
		if len(choice)*len(options) > maxChoices {
			return element{}, fmt.Errorf("%q stands for more than %d texts", s, maxChoices)
		}
		var longer []string
		for _, c := range choice {
			for _, o := range options {
				longer = append(longer, c+o)
			}
		}
		choice, rest = longer, tail
	}
	return element{choice: choice}, nil
}

// match reports whether the element stands for s.
func (e element) match(s string) bool {
	for _, c := range e.choice {
		if star(c, s) {
			return true
		}
	}
	return false
}

// star reports whether pattern, in which * is any run of bytes, matches all of s.
// It goes back only to the last star. That is enough: if an earlier star took
// more bytes, fewer would be left for the later ones.
func star(pattern, s string) bool {
	p, i, back, from := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			back, from = p, i
			p++
		case p < len(pattern) && pattern[p] == s[i]:
			p++
			i++
		case back >= 0:
			from++
			p, i = back+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// begins reports whether pattern, in which * is any run of bytes, stands for a
// text that begins with prefix.
func begins(pattern, prefix string) bool {
	head, _, starred := strings.Cut(pattern, "*")
	if !starred {
		return strings.HasPrefix(pattern, prefix)
	}
	// Anything can follow after a star.
	return strings.HasPrefix(head, prefix) || strings.HasPrefix(prefix, head)
}

// may reports whether the element stands for a text that begins with prefix.
func (e element) may(prefix string) bool {
	return prefix == "" || slices.ContainsFunc(e.choice, func(c string) bool { return begins(c, prefix) })
}

// word is one word of a command or one segment of a path.
type word struct {
	text string // the word, or its beginning
	also string // a second text that a pattern may match; may be empty
	sure shell.Certainty
}

// fits reports whether the element surely stands for the word.
func (e element) fits(w word) bool {
	return w.sure <= shell.Home && (e.match(w.text) || w.also != "" && e.match(w.also))
}

// match returns how sure it is that the pattern matches words. If one of the words is only
// known at run time, the result is at most may, unless a "**" matches that word.
func (g glob) match(words []word) proof {
	// Most patterns begin with the name of another program.
	if len(g.elements) > 0 && len(words) > 0 && !g.elements[0].any && words[0].sure == shell.Exact && !g.elements[0].fits(words[0]) {
		return no
	}
	if g.run(words, false) {
		return must
	}
	unsure := func(w word) bool { return w.sure != shell.Exact }
	if slices.ContainsFunc(words, unsure) && g.run(words, true) {
		return may
	}
	return no
}

// run steps through the words with the set of elements that may come next. With guess, an
// unknown word matches if anything that it may become matches. Without guess, only "**"
// matches an unknown word.
func (g glob) run(words []word, guess bool) bool {
	var first, second [maxElements + 1]bool
	end := len(g.elements)
	live, next := first[:end+1], second[:end+1]
	open := func(set []bool, i int) {
		set[i] = true
		for ; i < end && g.elements[i].any; i++ {
			set[i+1] = true
		}
	}
	open(live, 0)
	for _, w := range words {
		clear(next)
		alive := false
		for i, on := range live {
			if !on {
				continue
			}
			switch {
			case guess && w.sure == shell.Any:
				open(next, i)
				alive = true
				if i < end && (g.elements[i].any || g.elements[i].may(w.text)) {
					for j := i; j <= end; j++ {
						next[j] = true
					}
				}
			case i == end:
			case g.elements[i].any:
				open(next, i)
				alive = true
			case g.elements[i].fits(w), guess && w.sure == shell.Home, guess && w.sure == shell.One && g.elements[i].may(w.text):
				open(next, i+1)
				alive = true
			}
		}
		if !alive {
			return false
		}
		live, next = next, live
	}
	return live[end]
}

// compileCommand makes a glob over the words of a command.
func compileCommand(s string) (glob, error) {
	words := strings.Fields(s)
	if len(words) == 0 {
		return glob{}, errors.New("contains no word")
	}
	return compile(s, words)
}

// compilePath makes a glob over the segments of an absolute path.
func compilePath(s string) (glob, error) {
	switch {
	case strings.HasPrefix(s, "~"):
		return glob{}, errors.New("~ is not expanded; write the path as the box sees it")
	case s == "**":
		return compile(s, []string{"**"})
	case strings.HasPrefix(s, "**/"):
		s = "/" + s
	case !path.IsAbs(s):
		return glob{}, errors.New("is not absolute; begin it with / or with **/")
	}
	if path.Clean(s) != s {
		return glob{}, fmt.Errorf("is not in its shortest form, %q", path.Clean(s))
	}
	return compile(s, segments(s))
}

// segments splits a clean absolute path.
func segments(p string) []string {
	if p == "/" {
		return nil
	}
	return strings.Split(p[1:], "/")
}

// literals returns words whose texts are known.
func literals(texts []string) []word {
	words := make([]word, len(texts))
	for i, t := range texts {
		words[i].text = t
	}
	return words
}
