package mcp

import (
	"context"

	"belljar.dev/policies"
)

// Surveyor looks at what the command of a call would meet if it began now. It is
// called from many goroutines, and runs nothing.
type Surveyor interface {
	Survey(ctx context.Context, c Call, f policies.Facts) *policies.Scene
}

// SurveyWith makes questions to people show what a Surveyor sees, and binds their
// answers to that. It must be called before the server serves.
func (s *Server) SurveyWith(v Surveyor) { s.gate.surveyor = v }

// survey returns what the command of a call that is asked about would meet; nil for
// other calls.
func (g *callGate) survey(ctx context.Context, c Call, f policies.Facts, d policies.Decision) *policies.Scene {
	if f.Command == "" {
		return f.Scene // what a Preparer saw
	}
	if g.surveyor == nil || d.Verdict != policies.Ask {
		return nil
	}
	c.Grant = d.Offers()
	return g.surveyor.Survey(ctx, c, f)
}
