package mcp

import (
	"context"
	"fmt"
	"slices"
	"time"

	"belljar.dev/policies"
)

// Preparer finds out what a call would do, for a tool whose arguments alone do not show it.
// It is called before the policy decides, so it may only read: the Call has no Grant. The
// policy judges the Facts that it returns. Args, if set, replace the arguments of the call
// in the decision, the question to a person and the audit log. If it returns an error, the
// agent gets the error in the same way as one about arguments, and nothing runs.
type Preparer[In Gated] func(ctx context.Context, call Call, in In) (policies.Facts, error)

// AddPreparedTool is AddTool for a tool with a Preparer. The handler finds what was decided
// in Call.Acts and Call.Scene. It must check again whether these are still true, because a
// person may have thought about the question for hours.
func AddPreparedTool[In Gated](s *Server, t Tool, p Preparer[In], h Handler[In]) {
	made := newTool(t, h)
	made.prepare = func(ctx context.Context, c Call, v Gated) (policies.Facts, error) {
		typed, ok := v.(In)
		if !ok {
			return policies.Facts{}, fmt.Errorf("prepare %s with a %T", t.Name, v)
		}
		return p(ctx, c, typed)
	}
	s.tools.add(made)
}

// Further decides about a further part of a call, as if the part were a call of its own.
// The policy decides, if necessary with a person's approval, and the decision is recorded.
// Then run is called with a Call that has the part's grant. Limits on calls count the part.
// The part must have the profile of the call, and must not need a redaction that the call's
// result does not get. refusal is nil if run was called; err is then what run returned.
func (c Call) Further(ctx context.Context, f policies.Facts, run func(Call) error) (refusal *policies.Refusal, err error) {
	g := c.Session.server.gate
	started := time.Now()
	t, ok := g.tools.find(c.Session.tenant, c.Tool)
	if !ok {
		return nil, fmt.Errorf("decide about a part of call %s: the tool %s no longer exists", c.ID, c.Tool)
	}
	part := c
	part.ID, part.Grant, part.Scene, part.Acts, part.allowed = NewCallID(), policies.Grant{}, nil, nil, nil
	g.addFacts(ctx, t, c, started, &f)
	d, asked, refusal, leave := g.decide(ctx, part, &f)
	defer leave()
	if d.Verdict == policies.Allow {
		d = g.ofCall(c, d)
	}
	d = g.recordDecision(ctx, part, started, f, d, asked)
	switch {
	case refusal != nil:
		return refusal, nil
	case d.Verdict != policies.Allow:
		no := d.Denied(part.ID)
		return &no, nil
	}
	part.Grant, part.Audit, part.Scene, part.Acts = d.Grant, d.Audit, f.Scene, f.Acts
	err = run(part)
	if g.cfg.Audit != nil {
		g.cfg.Audit.Finished(Finished{Call: part, Result: &Result{IsError: err != nil}, Err: err, Took: time.Since(started), Decision: d})
	}
	return nil, err
}

// RulePart is the rule of a denial of a part that cannot belong to its call.
const RulePart = "part"

// ofCall denies a part of a call if its grant has another profile than the call's, or if
// its result needs a redaction that the call's result does not get.
func (g *callGate) ofCall(c Call, d policies.Decision) policies.Decision {
	why := ""
	switch {
	case d.Grant.Profile() != c.Grant.Profile():
		why = fmt.Sprintf("This part is allowed in profile %q, and the call has profile %q.", d.Grant.Profile(), c.Grant.Profile())
	case slices.ContainsFunc(d.Redact, func(r policies.Redaction) bool { return !slices.Contains(c.redact, r) }):
		why = "The policy redacts something in the result of this part that it does not redact in the result of the call."
	default:
		return d
	}
	return policies.Decision{Verdict: policies.Deny, Rule: RulePart, Part: d.Part, Reason: why, Instead: "Send this part as a call of its own."}
}

// addFacts adds what is known from the tool, session and caller to the facts of a call.
func (g *callGate) addFacts(ctx context.Context, t *tool, c Call, started time.Time, f *policies.Facts) {
	t.show(f)
	f.Tenant, f.Session, f.Now = c.Session.tenant, c.Session.id, started
	f.Scopes = g.cfg.callerOf(ctx).Scopes
}
