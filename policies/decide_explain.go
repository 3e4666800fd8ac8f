package policies

import (
	"strings"

	"belljar.dev/policies/shell"
)

// Part is one part of a call and what the rules say to it.
type Part struct {
	Subject string // "command", "path", "URL" or "host"; empty for the call as a whole
	Text    string // printable, at most 200 characters
	Via     string // programs that start it, for example "env > timeout"
	Words   string // of a command, as they were read: x... begins with x, * is any number of words
	Doubt   string // why the words do not say all that the part does; may be empty
	Passed  bool   // a wrapper without a rule: what it starts is judged in its place
	Verdict Verdict
	Rule    string // as in Decision
	Source  Source
	Below   []Said  // what the layers below say, of those that speak about it
	Matches []Match // the rules that speak about the part, and those that would but for their condition
}

// Said is what one layer says to a part.
type Said struct {
	Layer   string
	Verdict Verdict
	Rule    string // as in Decision
	Source  Source
}

// Match is a rule that speaks about a part.
type Match struct {
	Rule    string
	Source  Source
	Verdict Verdict // that it gives the part; where it denies and only may speak about it, Ask
	Maybe   bool    // it only may speak about the part; one that allows says nothing then
	Passes  bool    // its "unsure" lets it say nothing if it only may speak about the part
	Mode    Mode
	When    string // its condition; empty for none
	Failed  string // why that cannot be worked out, which counts against the call; empty if it can
	Silent  bool   // it says nothing, since its condition does not hold
	Limit   string // as policies spell it; empty for none
	Redact  []Redaction
}

// Explain is Decide with the decision about each part, for a person who writes or
// reads a policy.
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
			Words: Clip(showWords(pc.words), maxPart), Doubt: pc.doubt, Passed: o.skip, Matches: seen,
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

// showWords is the words of a command with marks for what is not known.
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
