package policies

import (
	"fmt"
	"slices"
	"strings"
)

// judge finds the strictest verdict over all pieces, and the profiles in
// which every piece is allowed.
func (s *ruleset) judge(f Facts, profile string, pieces []piece) (Decision, []string) {
	c := &inquiry{tool: f.Tool, profile: profile, facts: &f, pieces: pieces}
	var worst Decision
	var grants []string
	var bound []*rule
	var shadows []shadowing
	begun, remember, kept := false, anyRemember, keeping{logged: s.logged}
	for i := range pieces {
		o := s.weigh(c, &pieces[i])
		if s.shadows {
			before := Allow
			if begun {
				before = worst.Verdict
			}
			shadows = cast(shadows, &o, &pieces[i], i+1, before)
		}
		if o.skip {
			continue // the pieces that it starts are judged instead
		}
		bound = append(bound, o.bound...)
		kept.add(c, o.bound)
		if o.verdict == Ask {
			remember = remember.narrow(o.remember)
			// A yes to the part also grants the profile that the call asks for. A yes to an
			// act grants the profile that a rule grants to the same act, if there is such a
			// rule: a call cannot ask for the profile of a browser.
			if !slices.Contains(o.grants, profile) && (pieces[i].kind != anAct || len(o.grants) == 0) {
				o.grants = append(o.grants, profile)
			}
		}
		if !begun || o.verdict < worst.Verdict {
			worst = s.decision(c.tool, &pieces[i], o)
			worst.Part, worst.PartNo, worst.Parts, worst.Subject = Clip(pieces[i].text, maxPart), i+1, len(pieces), pieces[i].kind
			worst.Via = strings.Join(pieces[i].via, " > ")
			worst.PartStart, worst.PartEnd, worst.PartArgv = pieces[i].start, pieces[i].end, pieces[i].argv(worst.Verdict)
		}
		if !begun {
			grants = slices.Clone(o.grants) // o.grants may be shared, and the clone is changed below
		} else {
			grants = slices.DeleteFunc(grants, func(g string) bool { return !slices.Contains(o.grants, g) })
		}
		begun = true
		if worst.Verdict == Deny && !s.shadows {
			break
		}
	}
	if worst.Verdict != Deny {
		worst.bind(bound)
		worst.Ask = s.asking.Asking // also for an allowed call: its tool may ask a person, like PlanMode
	}
	if worst.Verdict == Ask {
		worst.Remember = remember
	}
	worst.Audit = kept.of(worst.Verdict)
	if len(shadows) > 0 {
		worst.shade(shadows)
	}
	return worst, grants
}

// outcome is the result of the rules for one piece.
type outcome struct {
	verdict Verdict
	rule    *rule    // rule that decided; nil if none matched
	maybe   bool     // a rule that may speak about the piece decided
	near    *rule    // rule that would allow the piece if its words said everything
	options bool     // near would allow the piece without options or variables that it does not list
	skip    bool     // no rule speaks about a wrapper
	grants  []string // profiles that are granted, if verdict is Allow
	// bound are the rules with terms that speak about the piece. remember is what they say
	// about approvals, if verdict is Ask.
	bound    []*rule
	remember Remember
	aside    []aside // verdicts of rules that are not enforced
}

// weigh applies every rule to one piece.
//
// A text says less than what runs, so the two directions differ. To let a piece through, a
// rule must be proved to speak about it. To stop it, it is enough that the rule may speak
// about it. For exceptions it is the other way round. If a rule that denies only may speak
// about a piece, a person is asked.
func (s *ruleset) weigh(c *inquiry, pc *piece) outcome {
	w := weighing{set: s, call: c, piece: pc, outcome: outcome{verdict: Allow, remember: anyRemember}}
	for _, r := range c.among(s, pc) {
		w.consult(r)
	}
	w.settle()
	return w.outcome
}

// weighing is the result of the rules that were applied so far to one piece.
type weighing struct {
	set   *ruleset
	call  *inquiry
	piece *piece
	outcome
	strict, lenient *rule // first of the rules that stop the piece most strictly; first of those that let it through
	// question is set if a rule wants a question about the tool by its own name. Without
	// it, a question only comes from a rule that denies and only may speak about the piece,
	// or from a name that an upstream chose.
	question bool
}

// consult applies one rule to the piece.
func (w *weighing) consult(r *rule) {
	lets := r.verdict == Allow
	sure := r.match.about(w.call, w.piece, lets)
	if sure != no && !r.unless.isZero() {
		sure = min(sure, r.unless.about(w.call, w.piece, !lets).not())
	}
	without := sure
	if sure != no && r.when != nil {
		sure = min(sure, w.call.when(r, lets))
	}
	verdict := r.verdict
	if verdict == Deny && sure == may {
		verdict = Ask
	}
	if w.call.seen != nil {
		if m, ok := w.call.explained(r, verdict, without, sure); ok {
			*w.call.seen = append(*w.call.seen, m)
		}
	}
	switch {
	case sure == no, sure == may && r.passes:
	case r.mode != ModeEnforce:
		if sure == must || !lets {
			w.aside = append(w.aside, aside{r, verdict})
		}
	case !lets:
		w.stop(r, verdict, sure)
	case sure == must:
		w.let(r)
	case w.near == nil:
		w.near = r
	}
}

// let records a rule that lets the piece through.
func (w *weighing) let(r *rule) {
	if r.terms.any() {
		w.bound = append(w.bound, r)
	}
	if w.lenient == nil {
		w.lenient = r
	}
	granted := r.profile
	if granted == "" {
		granted = w.call.profile
	}
	switch {
	case len(w.grants) == 0 && granted == w.call.profile:
		w.grants = w.call.own()
	case !slices.Contains(w.grants, granted):
		w.grants = append(w.grants, granted)
	}
}

// stop records a rule that denies the piece or wants a question about it.
func (w *weighing) stop(r *rule, verdict Verdict, sure proof) {
	if r.terms.any() {
		w.bound = append(w.bound, r)
	}
	w.question = w.question || r.verdict == Ask && w.call.byOwnName(r)
	if verdict == Ask {
		w.remember = w.remember.narrow(r.remembers(w.set))
	}
	// If two verdicts are equal, the rule that is sure gives the better reason.
	if verdict < w.verdict || verdict == w.verdict && w.maybe && sure == must {
		w.strict, w.verdict, w.maybe = r, verdict, sure == may
	}
}

// settle sets the outcome after all rules were applied.
func (w *weighing) settle() {
	switch {
	case w.piece.fault != "":
		w.outcome = outcome{verdict: Deny} // no rule can speak about the piece, whether it is enforced or not
	case w.strict != nil && w.verdict == Ask && !w.question && w.lenient == nil && w.set.fallback == Deny && !w.skips():
		// Such a question may replace an allow, but not a deny that would be the verdict
		// without it.
		w.verdict, w.maybe = Deny, false
	case w.strict != nil:
		w.rule = w.strict
	case w.lenient != nil:
		w.rule = w.lenient
	case w.skips():
		w.skip = true
	default:
		w.byDefault()
	}
	if w.piece.fault == "" && (w.piece.opaque || w.piece.vague || w.piece.swayed) {
		w.remember = Remember{} // the same text may mean something else the next time
	}
}

// skips reports whether the pieces that the piece starts are judged instead of it if no rule
// speaks about it.
func (w *weighing) skips() bool { return w.piece.wrapper && len(w.piece.files) == 0 }

// byDefault applies the policy's default to a piece about which no rule speaks.
func (w *weighing) byDefault() {
	w.verdict = w.set.fallback
	if w.piece.unread {
		w.verdict = min(w.verdict, w.set.unparsable)
	}
	w.grants = w.call.own()
	w.remember = w.set.asking.remember
	if w.near == nil && w.verdict != Allow {
		w.near = w.call.butForOptions(w.set, w.piece)
		w.options = w.near != nil
	}
}

// decision returns an outcome with its texts for the agent.
func (s *ruleset) decision(tool string, pc *piece, o outcome) Decision {
	subject := pc.kind
	if subject == wholeCall {
		subject = "call"
	}
	doubt := pc.doubt
	if doubt == "" {
		doubt = doubtFlags
		if o.rule != nil && o.rule.when != nil {
			doubt = doubtWhen
		}
	}
	d := Decision{Verdict: o.verdict, Rule: ruleDefault, Source: s.source}
	if o.rule != nil {
		d.Rule, d.Source = o.rule.id, o.rule.source
		d.Reason, d.Instead = o.rule.reason, o.rule.instead
	}
	var reason, instead string
	switch {
	case o.verdict == Allow:
		return d
	case pc.fault != "":
		d.Rule, d.Source = ruleUnreadable, Source{File: s.name}
		reason = fmt.Sprintf("No rule can judge this %s: %s.", subject, pc.fault)
		instead = pc.adviceWhenUnreadable(subject)
	case o.maybe:
		reason = fmt.Sprintf("Rule %s may speak about this %s: %s.", d.Rule, subject, doubt)
		if d.Reason != "" {
			reason += " " + d.Reason
		}
		d.Reason, d.Instead, instead = "", "", pc.adviceWhenUnsure(subject)
	case o.rule != nil && o.verdict == Ask:
		reason = fmt.Sprintf("The policy requires a person's approval for this %s.", subject)
		instead = "Do work that needs no approval, and tell the person you work for which call needs one."
	case o.rule != nil:
		reason = fmt.Sprintf("The policy does not allow this %s.", subject)
		instead = fmt.Sprintf("Reach the goal another way, or tell the person you work for that rule %s forbids this way.", d.Rule)
	case o.near != nil && o.options:
		reason = fmt.Sprintf("Rule %s would allow this %s, but not with all of its options and variables.", o.near.id, subject)
		instead = "Leave out the options and variables that are not needed."
	case o.near != nil && pc.doubt != "":
		reason = fmt.Sprintf("Rule %s would allow this %s if its text said all that it does, but %s.", o.near.id, subject, pc.doubt)
		instead = pc.adviceWhenUnsure(subject)
	default:
		reason = fmt.Sprintf("No rule of the policy allows this %s.", subject)
		if pc.kind == wholeCall && tool != "" {
			reason = fmt.Sprintf("No rule of the policy allows %s.", Clip(tool, 64))
		}
		instead = fmt.Sprintf("Use what the policy allows, or tell the person you work for that %s has no rule for it.", s.name)
	}
	if d.Reason == "" {
		d.Reason = reason
	}
	if d.Instead == "" {
		d.Instead = instead
	}
	return d
}

// adviceWhenUnsure returns advice on how to write a piece so that a rule can be sure about
// it.
func (pc *piece) adviceWhenUnsure(subject string) string {
	switch pc.kind {
	case aCommand:
		return "Write the command out in plain words, without variables, substitutions, redirections or blocks, or send its parts as separate calls."
	case anAct:
		return "Use URLs and paths in their plain, absolute form, or another control of the page."
	}
	return fmt.Sprintf("Name the %s in its plain, absolute form.", subject)
}

// adviceWhenUnreadable returns advice on what to do instead of a piece that no rule can
// judge.
func (pc *piece) adviceWhenUnreadable(subject string) string {
	switch pc.kind {
	case wholeCall:
		if len(pc.env) > 0 && len(pc.env) <= maxCallEnv {
			return "Leave the variable out of env, and write what it should do as commands of the script."
		}
		return "Send several smaller calls."
	case anAct:
		return "Use another control of the page, or open an address of http or https."
	case aURL:
		return "Write the whole URL, for example https://example.org/a/page. A link that a page has without a host is relative to the url of that page."
	}
	return fmt.Sprintf("Name the %s in its plain form.", subject)
}
