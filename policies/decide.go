package policies

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// The kinds of part that a call is judged by, as Decision.Subject spells them.
const (
	wholeCall = ""
	aCommand  = "command"
	aPath     = "path"
	aURL      = "URL"
	aHost     = "host"
)

// piece is one thing that a call does. The call gets the verdict of its
// strictest piece.
type piece struct {
	kind    string
	text    string
	words   []word // of a command or a path
	loose   []word // the same, the program also by the last segment of its path
	address address
	doubt   string // why the words do not say all; empty if they do
	opaque  bool   // there are no words to go by
	fault   string // why no rule can judge it; empty if one can
}

// Decide answers one call. It reads nothing but the policy and the facts, so
// equal calls get equal answers.
func (p *Policy) Decide(f Facts) Decision {
	profile := f.Profile
	if profile == "" {
		profile = p.profile
	}
	if _, ok := p.profiles[profile]; !ok {
		return Decision{
			Verdict: Deny, Rule: ruleProfile, Source: Source{File: p.name}, Parts: 1,
			Reason:  fmt.Sprintf("There is no profile \"%s\".", clip(profile, 64)),
			Instead: fmt.Sprintf("Repeat the call with one of the profiles %s, or without a profile for %s.", list(p.Profiles()), p.profile),
		}
	}
	pieces := pieces(f)
	d, grants := p.judge(f.Tool, profile, pieces)
	if d.Verdict != Allow {
		return d
	}
	granted := profile
	if !slices.Contains(grants, profile) {
		if len(grants) == 0 {
			return Decision{
				Verdict: Deny, Rule: ruleMixed, Source: Source{File: p.name}, Parts: len(pieces),
				Reason:  "Each part of this call is allowed, but not all of them in one profile.",
				Instead: "Send the parts as separate calls.",
			}
		}
		// A rule granted another profile than the call asked for: what other
		// rules refuse in that profile must hold too.
		granted = slices.Min(grants)
		if again, _ := p.judge(f.Tool, granted, pieces); again.Verdict != Allow && again.Rule != ruleDefault {
			return again
		}
	}
	d.Grant = p.profiles[granted]
	d.Grant.tenant = f.Tenant
	d.Grant.totals = p.totals
	return d
}

// judge finds the strictest verdict over all pieces, and the profiles in
// which every piece is allowed.
func (p *Policy) judge(tool, profile string, pieces []piece) (Decision, []string) {
	var worst Decision
	var grants []string
	for i := range pieces {
		o := p.weigh(tool, profile, &pieces[i])
		if i == 0 || o.verdict < worst.Verdict {
			worst = p.decision(tool, &pieces[i], o)
			worst.Part, worst.PartNo, worst.Parts, worst.Subject = clip(pieces[i].text, maxPart), i+1, len(pieces), pieces[i].kind
		}
		if i == 0 {
			grants = o.grants
		} else {
			grants = slices.DeleteFunc(grants, func(g string) bool { return !slices.Contains(o.grants, g) })
		}
		if worst.Verdict == Deny {
			break
		}
	}
	return worst, grants
}

// outcome is what the rules say to one piece.
type outcome struct {
	verdict Verdict
	rule    *rule    // nil where none matched
	maybe   bool     // a rule that may speak about the piece decided
	near    *rule    // would allow the piece if its words said all
	grants  []string // profiles, if verdict is Allow
}

// weigh asks every rule about one piece.
//
// A text says less than what runs, so the two directions differ: to let a
// piece through a rule must be proved to speak about it, and to stop it, it is
// enough that the rule may. The same holds for exceptions, the other way
// round. Where a deny only may speak about a piece, a person is asked.
func (p *Policy) weigh(tool, profile string, pc *piece) outcome {
	var strict, lenient *rule
	o := outcome{verdict: Allow}
	for i := range p.rules {
		r := &p.rules[i]
		if !r.match.onTool(tool) {
			continue
		}
		lets := r.verdict == Allow
		sure := r.match.about(pc, profile, lets)
		if sure != no && !r.unless.isZero() {
			sure = min(sure, r.unless.about(pc, profile, !lets).not())
		}
		verdict := r.verdict
		switch {
		case sure == no:
			continue
		case lets && sure == may:
			if o.near == nil {
				o.near = r
			}
			continue
		case lets:
			if lenient == nil {
				lenient = r
			}
			granted := r.profile
			if granted == "" {
				granted = profile
			}
			if !slices.Contains(o.grants, granted) {
				o.grants = append(o.grants, granted)
			}
			continue
		case sure == may:
			verdict = Ask
		}
		// Of two equal verdicts the sure one gives the better reason.
		if verdict < o.verdict || verdict == o.verdict && o.maybe && sure == must {
			strict, o.verdict, o.maybe = r, verdict, sure == may
		}
	}
	switch {
	case pc.fault != "":
		return outcome{verdict: Deny}
	case strict != nil:
		o.rule = strict
	case lenient != nil:
		o.rule = lenient
	default:
		o.verdict = p.fallback
		o.grants = []string{profile}
	}
	return o
}

// about says how sure it is that the match speaks about the piece. With trust
// the answer is used to let the piece through, and doubt counts against it.
func (m match) about(pc *piece, profile string, trust bool) proof {
	if len(m.profiles) > 0 && !slices.ContainsFunc(m.profiles, func(n named) bool { return n.name == profile }) {
		return no
	}
	if !m.typed() {
		return must
	}
	best := no
	switch pc.kind {
	case aCommand:
		for _, g := range m.commands {
			best = max(best, g.about(pc, trust))
		}
	case aPath:
		for _, g := range m.paths {
			best = max(best, g.about(pc, trust))
		}
	case aURL:
		for _, g := range m.urls {
			best = max(best, g.match(pc.address))
		}
	}
	return best
}

// about is match.about for one pattern.
func (g glob) about(pc *piece, trust bool) proof {
	switch {
	case g.everything():
		return must
	case pc.opaque:
		return may
	case !trust:
		return g.match(pc.loose)
	case pc.doubt != "":
		return min(g.match(pc.words), may)
	}
	return g.match(pc.words)
}

// pieces takes a call apart.
func pieces(f Facts) []piece {
	var all []piece
	if len(f.Paths)+len(f.URLs)+len(f.Hosts) > maxParts {
		return []piece{{kind: wholeCall, fault: fmt.Sprintf("it names more than %d paths, URLs and hosts", maxParts)}}
	}
	if f.Command != "" {
		for _, c := range split(f.Command) {
			if len(f.Env) > 0 && c.doubt == "" {
				// As behind NAME=value: the environment is code to many programs.
				c.doubt = "the call sets variables for it"
			}
			all = append(all, piece{kind: aCommand, text: c.text, words: c.words, loose: loose(c.words), doubt: c.doubt, opaque: c.opaque})
		}
	}
	for _, s := range f.Paths {
		all = append(all, readPath(s))
	}
	var named []string
	for _, s := range f.URLs {
		a, err := readURL(s)
		pc := piece{kind: aURL, text: s, address: a}
		switch {
		case err != nil:
			pc.fault = err.Error()
		case a.vague:
			pc.doubt = "servers read its path in different ways"
		}
		named = append(named, a.host)
		all = append(all, pc)
	}
	for _, s := range f.Hosts {
		host, err := hostname(s)
		switch {
		case err != nil:
			all = append(all, piece{kind: aHost, text: s, fault: err.Error()})
		case !slices.Contains(named, host): // else judged with its URL
			all = append(all, piece{kind: aHost, text: host})
		}
	}
	if len(all) == 0 {
		all = []piece{{kind: wholeCall}}
	}
	return all
}

// loose lets the program of a command go by its last segment too, so that
// /usr/bin/git is git for a rule that refuses.
func loose(words []word) []word {
	if len(words) == 0 || words[0].unknown || !strings.Contains(words[0].text, "/") {
		return words
	}
	words = slices.Clone(words)
	words[0].also = path.Base(words[0].text)
	return words
}

// readPath makes a piece of a path.
func readPath(s string) piece {
	pc := piece{kind: aPath, text: s}
	switch {
	case strings.ContainsRune(s, 0):
		pc.fault = "it holds a NUL byte"
	case !path.IsAbs(s):
		pc.doubt, pc.opaque = "it is not absolute", true
	case slices.Contains(strings.Split(s, "/"), ".."):
		// After a symlink the kernel's .. is another than the text's.
		pc.doubt, pc.opaque = "it holds ..", true
	default:
		pc.words = literals(segments(path.Clean(s)))
		pc.loose = pc.words
	}
	return pc
}

// decision puts an outcome into words for the agent.
func (p *Policy) decision(tool string, pc *piece, o outcome) Decision {
	subject := pc.kind
	if subject == wholeCall {
		subject = "call"
	}
	plainly := "Write the command out in plain words, without variables, substitutions, redirections or blocks, or send its parts as separate calls."
	if pc.kind != aCommand {
		plainly = fmt.Sprintf("Name the %s in its plain, absolute form.", subject)
	}
	d := Decision{Verdict: o.verdict, Rule: ruleDefault, Source: p.source}
	if o.rule != nil {
		d.Rule, d.Source = o.rule.id, o.rule.source
		d.Reason, d.Instead = o.rule.reason, o.rule.instead
	}
	var reason, instead string
	switch {
	case o.verdict == Allow:
		return d
	case pc.fault != "":
		d.Rule, d.Source = ruleUnreadable, Source{File: p.name}
		reason = fmt.Sprintf("No rule can judge this %s: %s.", subject, pc.fault)
		instead = fmt.Sprintf("Name the %s in its plain form.", subject)
		if pc.kind == wholeCall {
			instead = "Send several smaller calls."
		}
	case o.maybe:
		reason = fmt.Sprintf("Rule %s may speak about this %s: %s.", d.Rule, subject, pc.doubt)
		if d.Reason != "" {
			reason += " " + d.Reason
		}
		d.Reason, d.Instead, instead = "", "", plainly
	case o.rule != nil && o.verdict == Ask:
		reason = fmt.Sprintf("The policy wants a person's approval for this %s.", subject)
		instead = "Go on with work that needs no approval, and tell the person you work for what is waiting."
	case o.rule != nil:
		reason = fmt.Sprintf("The policy does not allow this %s.", subject)
		instead = fmt.Sprintf("Reach the goal another way, or tell the person you work for that rule %s stands against it.", d.Rule)
	case o.near != nil && pc.doubt != "":
		reason = fmt.Sprintf("Rule %s would allow this %s if its text said all that it does, but %s.", o.near.id, subject, pc.doubt)
		instead = plainly
	default:
		reason = fmt.Sprintf("No rule of the policy allows this %s.", subject)
		if pc.kind == wholeCall && tool != "" {
			reason = fmt.Sprintf("No rule of the policy allows %s.", clip(tool, 64))
		}
		instead = fmt.Sprintf("Use what the policy allows, or tell the person you work for that %s has no rule for it.", p.name)
	}
	if d.Reason == "" {
		d.Reason = reason
	}
	if d.Instead == "" {
		d.Instead = instead
	}
	return d
}
