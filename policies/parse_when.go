package policies

import (
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
func (d *decoder) when(n *yaml.Node, m match) cond.Condition {
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

// within returns the line and column in the policy of a place in a text. YAML
// folds lines, indents blocks and escapes letters, but the characters that are
// not blanks are the same in both, in the same order: so within counts them.
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
				break // what is missing is missing at the end of this line, or on the next
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

// escape is the length of an escape in double quotes, and whether it stands for
// a blank (YAML 1.2, 5.7).
func escape(runes []rune) (size int, blank bool) {
	if len(runes) < 2 {
		return 1, true // goes on in the next line
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

// inquiry is a call while it is decided, in one profile.
type inquiry struct {
	tool     string
	profile  string // in which it is judged
	facts    *Facts
	pieces   []piece
	input    *cond.Input // nil until a condition asks
	whens    map[*rule]said
	profiles []string // the profile alone
	of       *Policy  // whose rules these are; see on
	rules    []*rule
	numbers  []int    // of the rules, in the policy
	few      []*rule  // see among
	seen     *[]Match // gets the rules that speak about a piece; nil if nobody wants to know
}

// said is what a condition says to a call.
type said struct {
	holds bool
	err   error
}

// when says how sure it is that the condition of a rule holds. trust is as in
// match.about.
//
// If the condition cannot be worked out, that counts against the call: a rule that
// refuses then holds, and a rule that lets through does not. The same is true if
// the condition looks at commands and the script is not known in full.
func (c *inquiry) when(r *rule, trust bool) proof {
	s := c.evaluate(r)
	vague := r.when.Uses(cond.Commands) && c.vague()
	switch {
	case s.err != nil && trust, s.err == nil && !s.holds && !vague:
		return no
	case s.err != nil:
		return must
	case trust && !s.holds:
		return no
	case vague && (trust || !s.holds):
		return may
	}
	return must
}

// evaluate asks the condition of a rule once for the call.
func (c *inquiry) evaluate(r *rule) said {
	if s, ok := c.whens[r]; ok {
		return s
	}
	if c.input == nil {
		c.input = c.facts.input(c.profile, c.pieces)
	}
	var s said
	s.holds, s.err = r.when.Holds(c.input)
	if c.whens == nil {
		c.whens = make(map[*rule]said)
	}
	c.whens[r] = s
	return s
}

// vague reports whether the commands of the call are not known in full.
func (c *inquiry) vague() bool {
	return slices.ContainsFunc(c.pieces, func(pc piece) bool { return pc.kind == aCommand && (pc.vague || pc.opaque || pc.swayed || pc.unread) })
}

// input is what conditions see of a call.
func (f *Facts) input(profile string, pieces []piece) *cond.Input {
	in := &cond.Input{
		Tool: f.Tool, Tenant: f.Tenant, Session: f.Session, Profile: profile, Upstream: f.Upstream,
		Args: f.Args, Paths: f.Paths, URLs: f.URLs, Annotations: f.Annotations, Now: f.Now,
	}
	for i := range pieces {
		if h := pieces[i].host; !h.IsZero() && !slices.Contains(in.Hosts, h.String()) {
			in.Hosts = append(in.Hosts, h.String())
		}
	}
	in.Commands = func() [][]string {
		var all [][]string
		for i := range pieces {
			if pieces[i].kind != aCommand || pieces[i].unread {
				continue
			}
			words := make([]string, len(pieces[i].words))
			for k, w := range pieces[i].words {
				words[k] = w.text // as far as it is known
			}
			all = append(all, words)
		}
		return all
	}
	return in
}

// own returns a list of the profile of the call. The caller must not change it.
func (c *inquiry) own() []string {
	if c.profiles == nil {
		c.profiles = []string{c.profile}
	}
	return c.profiles[:1:1]
}

// on returns the rules of a policy that may speak about the call: their tool and
// their profile are compared once for the call, and not for each of its parts.
func (c *inquiry) on(p *Policy) []*rule {
	if c.of == p {
		return c.rules
	}
	c.of, c.rules, c.numbers = p, make([]*rule, 0, len(p.rules)), make([]int, 0, len(p.rules))
	for i := range p.rules {
		if r := &p.rules[i]; r.match.onTool(c.tool) && r.match.on(c) {
			c.rules, c.numbers = append(c.rules, r), append(c.numbers, i)
		}
	}
	return c.rules
}

// butForOptions is a rule that would let a piece through if it had other options
// or variables, or nil.
func (c *inquiry) butForOptions(p *Policy, pc *piece) *rule {
	for _, r := range c.among(p, pc) {
		if r.verdict == Allow && r.mode == ModeEnforce && r.when == nil && r.match.butForOptions(c, pc) {
			return r
		}
	}
	return nil
}
