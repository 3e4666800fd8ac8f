package policies

import (
	"strings"

	"belljar.dev/policies/shell"
)

// Part is one part of a call and what the rules say to it.
type Part struct {
	Subject string // "command", "path", "URL", "host" or "act"; empty for the call as a whole
	Text    string // text of the part, printable, and cut after 200 characters
	Via     string // programs that start the part, for example "env > timeout"; as Text
	Words   string // words of a command, as they were read: x... begins with x, * is any number of words; as Text
	Doubt   string // why the words do not say all that the part does; may be empty; as Text
	Passed  bool   // the part is a wrapper without a rule: the commands that it starts are judged instead
	Verdict Verdict
	Rule    string // as in Decision.Rule
	Source  Source
	Below   []Said  // what the layers below the policy say, of those that have a rule about the part or object
	Matches []Match // rules that speak about the part, and those that would if their condition held
}

// Said is what one layer says about a part.
type Said struct {
	Layer   string
	Verdict Verdict
	Rule    string // as in Decision.Rule
	Source  Source
}

// Match is a rule that speaks about a part.
type Match struct {
	Rule    string
	Source  Source
	Verdict Verdict // verdict that the rule gives the part; Ask for a rule that denies and only may speak about the part
	Maybe   bool    // the rule only may speak about the part; a rule that allows then says nothing
	Passes  bool    // "unsure" of the rule lets it say nothing if it only may speak about the part
	Mode    Mode
	When    string // condition of the rule; empty if it has none
	Failed  string // why the condition cannot be evaluated, which counts against the call; empty if it can
	Silent  bool   // the rule says nothing, because its condition does not hold
	Limit   string // limit of the rule as policies spell it; empty if it has none
	Redact  []Redaction
}

// Explain returns the same decision as Decide, and the decision about each part, for a
// person who writes or reads a policy.
func (p *Policy) Explain(f Facts) (Decision, []Part) {
	d := p.Decide(f)
	profile, _ := p.asked(f)
	if profile == "" {
		return d, nil
	}
	var parts []Part
	var seen []Match
	c := &inquiry{tool: f.Tool, profile: profile, facts: &f, pieces: pieces(f), seen: &seen}
	for _, pc := range c.pieces {
		seen = nil
		o := p.weigh(c, &pc)
		part := Part{
			Subject: pc.kind, Text: Clip(pc.text, maxPart), Via: Clip(strings.Join(pc.via, " > "), maxPart),
			Words: Clip(showWords(pc.words), maxPart), Doubt: Clip(pc.doubt, maxPart), Passed: o.skip, Matches: seen,
		}
		if !o.skip {
			one := p.decision(f.Tool, &pc, o)
			part.Verdict, part.Rule, part.Source = one.Verdict, one.Rule, one.Source
		}
		part.Below = sayBelow(p.layersOf(f.Tenant), *c, &pc)
		parts = append(parts, part)
	}
	return d, parts
}

// showWords returns the words of a command, with marks for what is not known.
func showWords(words []word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
		if w.text == "" && w.sure == shell.Exact || strings.ContainsAny(w.text, " \t\n;|&'") {
			texts[i] = "'" + strings.ReplaceAll(w.text, "'", `'\''`) + "'"
		}
		switch w.sure {
		case shell.One:
			texts[i] += "..."
		case shell.Any:
			texts[i] += "*"
		case shell.Exact, shell.Home:
		}
	}
	return strings.Join(texts, " ")
}
