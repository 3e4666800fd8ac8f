package policies

import (
	"slices"

	"belljar.dev/policies/cond"
)

// inquiry is a call while it is decided in one profile.
type inquiry struct {
	tool     string
	profile  string // profile in which the call is judged
	facts    *Facts
	pieces   []piece
	input    *cond.Input // nil until a condition is evaluated
	whens    map[*rule]said
	profiles []string // contains only the profile
	of       *ruleset // set that contains rules; see on
	rules    []*rule
	numbers  []int    // numbers of rules in the policy
	few      []*rule  // see among
	seen     *[]Match // gets the rules that speak about a piece; nil if they are not wanted
}

// said is the result of a condition for a call.
type said struct {
	holds bool
	err   error
}

// when says how sure it is that the condition of a rule holds. trust is as in match.about.
//
// If the condition cannot be evaluated, that counts against the call: a rule that refuses
// then holds, and a rule that lets through does not. The same is true if the condition
// looks at commands and the script is not known in full.
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

// evaluate evaluates the condition of a rule, only once for the call.
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

// input returns what conditions see of a call.
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
				words[k] = w.text // only as far as the word is known
			}
			all = append(all, words)
		}
		return all
	}
	return in
}

// own returns a list that contains only the profile of the call. The caller must not change
// it.
func (c *inquiry) own() []string {
	if c.profiles == nil {
		c.profiles = []string{c.profile}
	}
	return c.profiles[:1:1]
}

// butForOptions returns a rule that would let a piece through if the piece had other
// options or variables, or nil.
func (c *inquiry) butForOptions(s *ruleset, pc *piece) *rule {
	for _, r := range c.among(s, pc) {
		if r.verdict == Allow && r.mode == ModeEnforce && r.when == nil && r.match.butForOptions(c, pc) {
			return r
		}
	}
	return nil
}

// explained returns a rule as an explanation shows it, and whether the
// explanation shows it at all. with says how sure it is that the rule speaks about
// the part, without its condition.
func (c *inquiry) explained(r *rule, verdict Verdict, with, sure proof) (Match, bool) {
	m := Match{
		Rule: r.id, Source: r.source, Verdict: verdict, Maybe: sure == may, Passes: sure == may && r.passes, Mode: r.mode, Silent: sure == no,
		Limit: r.terms.limit.String(), Redact: r.terms.redact,
	}
	if r.when == nil || with == no {
		return m, sure != no
	}
	m.When = r.when.String()
	if s := c.evaluate(r); s.err != nil {
		m.Failed = Clip(s.err.Error(), maxPart) // it may repeat an argument of the call
	}
	return m, true
}
