package mcp

import (
	"context"

	"belljar.dev/policies"
)

// Surveyor finds out what the command of a call would meet if it began now: its directory,
// and the files that it names. It is called from many goroutines, and runs nothing.
type Surveyor interface {
	Survey(ctx context.Context, c Call, f policies.Facts) *policies.Scene
}

// SurveyWith makes questions to people show the Scene of a Surveyor, and binds their
// answers to that Scene. It must be called before the server serves.
func (s *Server) SurveyWith(v Surveyor) { s.gate.surveyor = v }

// survey returns the Scene of a call whose command people are asked about; for other calls
// it returns the Scene in the facts, or nil.
func (g *callGate) survey(ctx context.Context, c Call, f policies.Facts, d policies.Decision) *policies.Scene {
	if f.Command == "" {
		return f.Scene // the Scene of a Preparer
	}
	if g.surveyor == nil || d.Verdict != policies.Ask {
		return nil
	}
	c.Grant = d.Offers()
	return g.surveyor.Survey(ctx, c, f)
}
