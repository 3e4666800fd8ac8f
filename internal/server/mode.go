package server

import (
	"belljar.dev/policies"
)

// Mode is what a person allows at most of what a profile says about the workspace. The
// zero value is all of it.
type Mode string

// The modes.
const (
	ModeBind    Mode = "bind"    // writes go to the directory
	ModeOverlay Mode = "overlay" // writes go to a layer beside it
	ModeNone    Mode = "none"    // boxes do not see it
)

// narrow is a decision under the mode: a grant that the mode would widen is
// refused.
func (m Mode) narrow(d policies.Decision) policies.Decision {
	if m == "" {
		return d
	}
	narrowed, err := d.With(func(g policies.Grant) (policies.Grant, error) {
		to := g.Workspace()
		switch m {
		case ModeNone:
			to = policies.AccessNone
		case ModeOverlay:
			to = policies.AccessOverlay
		case ModeBind:
			if to != policies.AccessRead {
				to = policies.AccessWrite
			}
		}
		return g.Narrow(to)
	})
	if err != nil {
		return policies.Decision{
			Verdict: policies.Deny, Rule: "workspace-mode", Reason: err.Error(),
			Instead: "Tell the person you work for to start belljar without --workspace-mode " + string(m) + ", or with a profile that allows it.",
		}
	}
	return narrowed
}
