package policies

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"belljar.dev/policies/cond"
)

// maxWhens bounds the conditions of a policy: each is compiled.
const maxWhens = 200

// when reads the condition of a rule. It reports each fault of the condition at
// its place in the policy.
func (d *ruleDecoder) when(n *yaml.Node, m match) cond.Condition {
	text, ok := d.text(n, "when")
	if !ok {
		return nil
	}
	if d.whens++; d.whens > maxWhens {
		d.Fault(n, "make several rules one", "the policy has more than %d conditions", maxWhens)
		return nil
	}
	c, wrong := cond.Compile(text, m.argsOf())
	for _, f := range wrong {
		hint := f.Hint
		if f.Name != "" {
			hint = suggest(f.Name, f.Known)
			if len(f.Known) == 0 {
				hint = "it takes none"
			}
		}
		line, col := d.within(n, text, f.Line, f.Col)
		d.FaultAt(line, col, "when: "+f.Message, hint)
	}
	return c
}

// argsOf returns the arguments that a condition of the match may read: those of all tools
// of this server that the match names. It is nil if the match may speak about a tool of
// another server, whose arguments are not known.
func (m *match) argsOf() cond.Args {
	var all cond.Args
	for _, e := range m.tools {
		found := false
		for _, name := range knownTools {
			if e.match(name) && !e.any && !slices.Contains(e.choice, "*") {
				all, found = union(all, toolArgs()[name]), true
			}
		}
		if !found {
			return nil
		}
		// If there are several texts, each must be a known one.
		for _, c := range e.choice {
			if !strings.Contains(c, "*") && toolArgs()[c] == nil {
				return nil
			}
		}
	}
	return all
}

// union returns the arguments of either of two tools. An argument that has
// different types in the two has the type any.
func union(a, b cond.Args) cond.Args {
	all := maps.Clone(a)
	if all == nil {
		all = make(cond.Args)
	}
	for name, t := range b {
		if have, ok := all[name]; ok && have != t {
			t = cond.Any
		}
		all[name] = t
	}
	return all
}

// within returns the line and column in the policy that belong to a place in a text. YAML
// folds lines, indents blocks and escapes letters, but the characters that are not blanks
// are the same in the policy and in the text, in the same order: so within counts them.
func (d *decoder) within(n *yaml.Node, text string, line, col int) (int, int) {
	behind := letters(text, line, col)
	row, at := n.Line-1, n.Column-1
	quote := rune(0)
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		row, at = row+1, 0
	case n.Style&yaml.SingleQuotedStyle != 0:
		quote, at = '\'', at+1
	case n.Style&yaml.DoubleQuotedStyle != 0:
		quote, at = '"', at+1
	}
	for ; row < len(d.Lines); row, at = row+1, 0 {
		runes := []rune(d.Lines[row])
		for at < len(runes) {
			size, blank := 1, unicode.IsSpace(runes[at])
			switch {
			case quote == '\'' && runes[at] == '\'':
				size = 2
			case quote == '"' && runes[at] == '\\':
				size, blank = escape(runes[at:])
			}
			if !blank {
				if behind == 0 {
					return row + 1, at + 1
				}
				behind--
			}
			if behind == 0 && at+size >= len(runes) {
				break // the place is at the end of this line, or on the next one
			}
			at += size
		}
		if behind == 0 && strings.TrimSpace(d.Lines[row]) != "" {
			return row + 1, min(at+1, len(runes)+1)
		}
	}
	return n.Line, n.Column
}

// letters returns the number of characters before a place in text that are not
// blanks.
func letters(text string, line, col int) int {
	n := 0
	for i, s := range strings.Split(text, "\n") {
		for k, r := range []rune(s) {
			if i+1 > line || i+1 == line && k+1 >= col {
				return n
			}
			if !unicode.IsSpace(r) {
				n++
			}
		}
		if i+1 >= line {
			return n
		}
	}
	return n
}

// escape returns the length of an escape in double quotes, and whether the escape stands
// for a blank (YAML 1.2, 5.7).
func escape(runes []rune) (size int, blank bool) {
	if len(runes) < 2 {
		return 1, true // the text continues in the next line
	}
	switch runes[1] {
	case 'x':
		return 4, false
	case 'u':
		return 6, false
	case 'U':
		return 10, false
	}
	return 2, strings.ContainsRune("tnvfr N_LP", runes[1])
}
