package server

import (
	"belljar.dev/policies"
)

// Mode is the most that a person allows boxes to do with the workspace, whatever a profile
// says. The zero value allows everything that a profile allows.
type Mode string

// The modes.
const (
	ModeBind    Mode = "bind"    // writes go to the directory
	ModeOverlay Mode = "overlay" // writes go to a layer above the directory
	ModeNone    Mode = "none"    // boxes do not see the directory
)

// narrow returns a decision with its grant narrowed to the mode. If the grant cannot be
// narrowed to the mode, because the mode allows more, the call is denied.
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
