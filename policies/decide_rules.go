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
			continue // what it starts is judged instead
		}
		bound = append(bound, o.bound...)
		kept.add(c, o.bound)
		if o.verdict == Ask {
			remember = remember.narrow(o.remember)
			// A yes to the part also grants the profile that the call asks for. That to an act
			// grants what a rule grants to the same act, if there is one: a call cannot ask for
			// the profile of a browser.
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
			grants = slices.Clone(o.grants) // which may be shared, and is changed below
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
		worst.Ask = s.asking.Asking // of an allowed call too: its tool may ask, like PlanMode
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

// outcome is what the rules say to one piece.
type outcome struct {
	verdict Verdict
	rule    *rule    // nil where none matched
	maybe   bool     // a rule that may speak about the piece decided
	near    *rule    // would allow the piece if its words said all
	options bool     // near would, but for options or variables that it does not list
	skip    bool     // no rule speaks about a wrapper
	grants  []string // profiles, if verdict is Allow
	// bound are the rules with terms for a call that passes, and remember is
	// what they say about approvals, if verdict is Ask.
	bound    []*rule
	remember Remember
	aside    []aside // what rules that are not enforced say
}

// weigh asks every rule about one piece.
//
// A text says less than what runs, so the two directions differ: to let a
// piece through a rule must be proved to speak about it, and to stop it, it is
// enough that the rule may. The same holds for exceptions, the other way
// round. Where a deny only may speak about a piece, a person is asked.
func (s *ruleset) weigh(c *inquiry, pc *piece) outcome {
	profile := c.profile
	var strict, lenient *rule
	// A rule wants a question about the tool by its own name. Without one, a question is no
	// more than a rule that denies and only may, or a name that an upstream chose.
	asks := false
	o := outcome{verdict: Allow, remember: anyRemember}
	for _, r := range c.among(s, pc) {
		lets := r.verdict == Allow
		sure := r.match.about(c, pc, lets)
		if sure != no && !r.unless.isZero() {
			sure = min(sure, r.unless.about(c, pc, !lets).not())
		}
		without := sure
		if sure != no && r.when != nil {
			sure = min(sure, c.when(r, lets))
		}
		verdict := r.verdict
		if verdict == Deny && sure == may {
			verdict = Ask
		}
		if c.seen != nil {
			if m, ok := c.explained(r, verdict, without, sure); ok {
				*c.seen = append(*c.seen, m)
			}
		}
		if sure == may && r.passes {
			continue
		}
		if r.mode != ModeEnforce {
			if sure == must || sure == may && !lets {
				o.aside = append(o.aside, aside{r, verdict})
			}
			continue
		}
		switch {
		case sure == no:
			continue
		case lets && sure == may:
			if o.near == nil {
				o.near = r
			}
			continue
		case lets:
			if r.terms.any() {
				o.bound = append(o.bound, r)
			}
			if lenient == nil {
				lenient = r
			}
			granted := r.profile
			if granted == "" {
				granted = profile
			}
			switch {
			case len(o.grants) == 0 && granted == profile:
				o.grants = c.own()
			case !slices.Contains(o.grants, granted):
				o.grants = append(o.grants, granted)
			}
			continue
		}
		if r.terms.any() {
			o.bound = append(o.bound, r)
		}
		asks = asks || r.verdict == Ask && c.byOwnName(r)
		if verdict == Ask {
			o.remember = o.remember.narrow(r.remembers(s))
		}
		// If two verdicts are equal, the sure one gives the better reason.
		if verdict < o.verdict || verdict == o.verdict && o.maybe && sure == must {
			strict, o.verdict, o.maybe = r, verdict, sure == may
		}
	}
	switch {
	case pc.fault != "":
		return outcome{verdict: Deny} // enforced or not, no rule can speak about it
	case strict != nil && o.verdict == Ask && !asks && lenient == nil && s.fallback == Deny:
		// Such a question may take the place of what is allowed, and not of what is
		// denied without it.
		o.verdict, o.maybe = Deny, false
	case strict != nil:
		o.rule = strict
	case lenient != nil:
		o.rule = lenient
	case pc.wrapper && len(pc.files) == 0:
		o.skip = true
	default:
		o.verdict = s.fallback
		if pc.unread {
			o.verdict = min(o.verdict, s.unparsable)
		}
		o.grants = c.own()
		o.remember = s.asking.remember
		if o.near == nil && o.verdict != Allow {
			o.near = c.butForOptions(s, pc)
			o.options = o.near != nil
		}
	}
	if pc.opaque || pc.vague || pc.swayed {
		o.remember = Remember{} // the same text may be another thing the next time
	}
	return o
}

// decision puts an outcome into words for the agent.
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
	plainly := "Write the command out in plain words, without variables, substitutions, redirections or blocks, or send its parts as separate calls."
	switch pc.kind {
	case aCommand:
	case anAct:
		plainly = "Use URLs and paths in their plain, absolute form, or another control of the page."
	default:
		plainly = fmt.Sprintf("Name the %s in its plain, absolute form.", subject)
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
		instead = fmt.Sprintf("Name the %s in its plain form.", subject)
		switch pc.kind {
		case wholeCall:
			instead = "Send several smaller calls."
			if len(pc.env) > 0 && len(pc.env) <= maxCallEnv {
				instead = "Leave the variable out of env, and write what it should do as commands of the script."
			}
		case anAct:
			instead = "Use another control of the page, or open an address of http or https."
		case aURL:
			instead = "Write the whole URL, for example https://example.org/a/page. A link that a page has without a host is relative to the url of that page."
		}
	case o.maybe:
		reason = fmt.Sprintf("Rule %s may speak about this %s: %s.", d.Rule, subject, doubt)
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
	case o.near != nil && o.options:
		reason = fmt.Sprintf("Rule %s would allow this %s, but not with all of its options and variables.", o.near.id, subject)
		instead = "Leave out the options and variables that are not needed."
	case o.near != nil && pc.doubt != "":
		reason = fmt.Sprintf("Rule %s would allow this %s if its text said all that it does, but %s.", o.near.id, subject, pc.doubt)
		instead = plainly
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
