package policies

import (
	"strings"

	"belljar.dev/policies/shell"
)

// ruleSet is a set of rules, by their numbers.
type ruleSet []uint64

func (s ruleSet) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s ruleSet) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

// index finds the rules that may speak about a command by the name of its
// program: then each command of a long script is compared with only a few of
// many rules.
type index struct {
	wild     ruleSet            // rules about more than commands, or whose program is not one name
	programs map[string]ruleSet // the other rules, by each program that they name
}

// newIndex returns nil for a policy of few rules.
func newIndex(rules []rule) *index {
	const few = 8
	if len(rules) < few {
		return nil
	}
	size := (len(rules) + 63) / 64
	x := &index{wild: make(ruleSet, size), programs: make(map[string]ruleSet)}
	for i := range rules {
		names, ok := rules[i].match.programs()
		if !ok {
			x.wild.add(i)
		}
		for _, name := range names {
			if x.programs[name] == nil {
				x.programs[name] = make(ruleSet, size)
			}
			x.programs[name].add(i)
		}
	}
	return x
}

// programs returns the programs of the commands that a match speaks about. It returns false
// if the match may speak about other programs, or about something else in a command.
func (m *match) programs() ([]string, bool) {
	if len(m.commands) == 0 || len(m.paths) > 0 {
		return nil, false
	}
	var all []string
	for _, g := range m.commands {
		if g.elements[0].any {
			return nil, false
		}
		for _, c := range g.elements[0].choice {
			if strings.Contains(c, "*") {
				return nil, false
			}
			all = append(all, c)
		}
	}
	return all, true
}

// among returns the rules that may speak about a piece, of the rules that may speak about
// the call. The result is valid until the next call of among.
func (c *inquiry) among(s *ruleset, pc *piece) []*rule {
	all := c.on(s)
	if s.index == nil || pc.kind != aCommand || pc.opaque || pc.swayed || len(pc.words) == 0 || pc.loose[0].sure != shell.Exact {
		return all
	}
	named, also := s.index.programs[pc.loose[0].text], s.index.programs[pc.loose[0].also]
	c.few = c.few[:0]
	for k, r := range all {
		i := c.numbers[k]
		if s.index.wild.has(i) || named != nil && named.has(i) || also != nil && also.has(i) {
			c.few = append(c.few, r)
		}
	}
	return c.few
}

// byOwnName reports whether a rule, one of those that speak about the call, speaks about
// the tool by the tool's own name.
func (c *inquiry) byOwnName(r *rule) bool {
	return len(c.facts.ToolNames) == 0 || r.match.onTool(c.tool)
}

// on returns the rules of a policy that may speak about the call: their tool and
// their profile are compared once for the call, and not for each of its parts.
func (c *inquiry) on(s *ruleset) []*rule {
	if c.of == s {
		return c.rules
	}
	c.of, c.rules, c.numbers = s, make([]*rule, 0, len(s.rules)), make([]int, 0, len(s.rules))
	for i := range s.rules {
		if r := &s.rules[i]; (r.match.onTool(c.tool) || r.onOtherName(c.facts)) && r.match.on(c) {
			c.rules, c.numbers = append(c.rules, r), append(c.numbers, i)
		}
	}
	return c.rules
}
