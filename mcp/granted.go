package mcp

import (
	"context"
	"time"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// runIfAllowed calls run only if the policy allows it without an approval. Nobody is asked
// for an approval of what a client looks up while a person types.
func (g *callGate) runIfAllowed(ctx context.Context, session *Session, f policies.Facts, run func(Call) error) error {
	judged := f
	judged.Tenant, judged.Session, judged.Now = session.tenant, session.id, time.Now()
	judged.Scopes = g.cfg.callerOf(ctx).Scopes
	if d := g.judge(session, judged); d.Verdict != policies.Allow || len(d.Redact) > 0 {
		return nil
	}
	_, err := g.runGranted(ctx, Call{ID: NewCallID(), Session: session, Progress: withoutProgress}, f, run)
	return err
}

// runGranted runs the gate, run and the audit for a request that is not a tools/call but
// touches the same things as a tool.
func (g *callGate) runGranted(ctx context.Context, c Call, f policies.Facts, run func(Call) error) (policies.Decision, error) {
	started := time.Now()
	c.Upstream = f.Upstream
	if c.Tool = f.Tool; c.Tool == "" {
		return policies.Decision{}, wire.Errorf(wire.InternalError, "the facts of a resource name no tool")
	}
	f.Tenant, f.Session, f.Now = c.Session.tenant, c.Session.id, started
	f.Scopes = g.cfg.callerOf(ctx).Scopes
	if t, ok := g.tools.find(f.Tenant, f.Tool); ok {
		f.ToolNames, f.Annotations = t.names, t.hints
	}
	d, asked, refusal, leave := g.decide(ctx, c, &f)
	defer leave()
	d = g.recordDecision(ctx, c, started, f, g.refuseUnredactable(d), asked)
	switch {
	case refusal != nil:
		return d, refusedRead(*refusal)
	case d.Verdict != policies.Allow:
		return d, refusedRead(d.Denied(c.ID))
	}
	c.Grant, c.Audit, c.redact = d.Grant, d.Audit, d.Redact
	err := run(c)
	if g.cfg.Audit != nil {
		g.cfg.Audit.Finished(Finished{Call: c, Result: &Result{IsError: err != nil}, Err: err, Took: time.Since(started), Decision: d})
	}
	return d, err
}

// refusedRead returns a refusal as the error of a request.
func refusedRead(r policies.Refusal) *wire.Error {
	e := wire.Errorf(wire.InvalidRequest, "%s", r.Text())
	e.Data = map[string]any{"reason": "refused", "refusal": r}
	return e
}
