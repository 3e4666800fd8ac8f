package policies

import "fmt"

// tested adds a finding about each rule that decides no test of the policy.
func (l *linter) tested() {
	if len(l.rules) == 0 {
		return
	}
	tests := l.p.Tests()
	if len(tests) == 0 {
		l.note(valueOf(l.root, "rules"), Finding{
			Check: "untested", Severity: LintNote, Message: "the policy has no tests",
			Why: "tests run whenever it is read, and keep an edit from changing what it was not meant to", Instead: `write some, for example tests: [{bash: "git push", want: ask}]`,
		})
		return
	}
	decided := make(map[string]bool)
	for _, t := range tests {
		decided[t.Rule] = true
	}
	for i := range l.rules {
		r := &l.rules[i]
		if r.mode == ModeEnforce && !decided[r.id] && !l.gone[i] {
			l.add(i, l.at(i, -1, "id"), "untested", LintNote,
				fmt.Sprintf("no test is decided by rule %s", r.id),
				"no test would notice an edit that breaks the rule", fmt.Sprintf("write a test whose call it decides, with rule: %s", r.id))
		}
	}
}

// Bounds below which an audit log says too little about a rule.
const (
	fewCalls  = 100 // calls of a log; with fewer, a rule is not reported as unused
	fewAsked  = 5   // questions of a rule
	keptShare = 5   // a share of one in this number is 20 %
)

// used adds findings about rules from what the audit log shows.
func (l *linter) used() {
	if l.use == nil {
		return
	}
	for i := range l.rules {
		r := &l.rules[i]
		if l.use.Calls >= fewCalls && l.use.Spoke[r.id] == 0 {
			l.add(i, l.at(i, -1, "id"), "unused", LintNote,
				fmt.Sprintf("rule %s speaks about none of the %d calls of the log", r.id, l.use.Calls),
				"the rule may be for a case that has not occurred yet, or match nothing that agents do", "check with \"belljar policy explain\" whether it matches what it should")
		}
		if asked, kept := l.use.Asked[r.id], l.use.Kept[r.id]; asked >= fewAsked && kept*keptShare > asked {
			l.add(i, l.at(i, -1, "id"), "candidate", LintNote,
				fmt.Sprintf("of %d questions of rule %s, %d were answered with a yes for more than the call", asked, r.id, kept),
				"a person who is asked about calls that are always fine stops reading the questions", "allow the part of it that people always allow, with flags and env; the rest is still asked about")
		}
	}
}

// Speaks returns the ids of the rules that speak about any part of a call, from all layers
// that apply to the call. Rules that are not enforced are included.
func (p *Policy) Speaks(f Facts) []string {
	profile, _ := p.asked(f)
	if profile == "" {
		return nil
	}
	var ids []string
	known := make(map[string]bool)
	of := func(s *ruleset, parts []piece) {
		var seen []Match
		c := &inquiry{tool: f.Tool, profile: profile, facts: &f, pieces: parts, seen: &seen}
		for i := range parts {
			s.weigh(c, &parts[i])
		}
		for _, m := range seen {
			if !m.Silent && !known[m.Rule] {
				known[m.Rule] = true
				ids = append(ids, m.Rule)
			}
		}
	}
	parts := pieces(f)
	of(&p.ruleset, parts)
	for _, l := range p.layersOf(f.Tenant) {
		of(&l.rules, parts)
	}
	return ids
}
