package policies

import (
	"cmp"
	"fmt"
	"slices"
)

// Bounds of what a decision contains about rules that are not enforced.
const (
	maxShadows  = 32
	maxWarnings = 4
)

// shadowing is what one rule that is not enforced would have done to a call, over all its
// parts.
type shadowing struct {
	rule    *rule
	verdict Verdict
	piece   *piece
	number  int // number of the piece, from 1
}

// aside is a rule that is not enforced, and the verdict that it would have
// given a piece.
type aside struct {
	rule    *rule
	verdict Verdict
}

// overlay returns the verdict of a piece as it would be with one more rule.
func (o *outcome) overlay(a aside) Verdict {
	if o.rule == nil {
		return a.verdict // the default does not apply if a rule speaks
	}
	return min(o.verdict, a.verdict)
}

// cast returns all with what the rules that are not enforced say about one more piece.
// before is the verdict of the pieces before it.
func cast(all []shadowing, o *outcome, pc *piece, number int, before Verdict) []shadowing {
	for i := range all {
		s := &all[i]
		spoke := slices.ContainsFunc(o.aside, func(a aside) bool { return a.rule == s.rule })
		if !spoke && !o.skip {
			s.verdict = min(s.verdict, o.verdict)
		}
	}
	for _, a := range o.aside {
		would := o.overlay(a)
		i := slices.IndexFunc(all, func(s shadowing) bool { return s.rule == a.rule })
		switch {
		case i < 0:
			all = append(all, shadowing{rule: a.rule, verdict: min(before, would), piece: pc, number: number})
		default:
			all[i].verdict = min(all[i].verdict, would)
		}
	}
	return all
}

// shade adds what the rules that are not enforced would have done to a decision, the
// strictest rule first.
func (d *Decision) shade(all []shadowing) {
	slices.SortStableFunc(all, func(a, b shadowing) int { return cmp.Compare(a.verdict, b.verdict) })
	for _, s := range all[:min(len(all), maxShadows)] {
		shadow := Shadow{Rule: s.rule.id, Source: s.rule.source, Mode: s.rule.mode, Verdict: s.verdict, Part: Clip(s.piece.text, maxPart)}
		d.Shadow = append(d.Shadow, shadow)
		if shadow.Mode == ModeWarn && shadow.Verdict < d.Verdict && len(d.Warnings) < maxWarnings {
			d.Warnings = append(d.Warnings, s.warning(d.Parts))
		}
	}
}

// warning returns the text for the agent about a call that passed a rule of mode warn.
func (s shadowing) warning(parts int) string {
	subject := cmp.Or(s.piece.kind, "call")
	would := "be denied"
	if s.verdict == Ask {
		would = "need a person's approval"
	}
	text := fmt.Sprintf("WARNING by policy rule %s (%s:%d): this %s was let through, and will %s once the rule is enforced.",
		s.rule.id, s.rule.source.File, s.rule.source.Line, subject, would)
	if parts > 1 && s.piece.text != "" {
		text += fmt.Sprintf(" Part %d of %d: %s.", s.number, parts, Clip(s.piece.text, maxPart))
	}
	if s.rule.reason != "" {
		text += " Why: " + Clip(s.rule.reason, maxSaid)
	}
	if s.rule.instead != "" {
		text += " Do this instead: " + Clip(s.rule.instead, maxSaid)
	}
	return text
}
