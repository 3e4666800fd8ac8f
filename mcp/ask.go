package mcp

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"belljar.dev/policies"
)

// RuleApproval is the rule of a denial because no approval could be requested or used.
const RuleApproval = "approval"

// triesToUse is how often a call asks in all if other calls use its yes.
const triesToUse = 3

// decide decides a call and counts it. If the policy wants an approval, decide waits for a
// person. If no person said yes, refusal is the answer to the agent. The caller must call
// leave when the call has ended. After a yes, f.Scene is the scene that the person saw.
func (g *callGate) decide(ctx context.Context, c Call, f *policies.Facts) (d policies.Decision, a *Approval, refusal *policies.Refusal, leave func()) {
	none, by := func() {}, time.Time{}
	for range triesToUse {
		judged := c.Phase(PhaseDecide)
		d = c.from.bind(g.judge(c.Session, *f))
		judged()
		if d.Verdict != policies.Ask || g.cfg.Approver == nil {
			if len(d.Limits) == 0 {
				return d, nil, nil, none
			}
			d, leave = g.meter.enter(f.Tenant, d)
			return d, nil, nil, leave
		}
		f.Scene = g.survey(ctx, c, *f, d)
		q := Question{Call: c, Facts: *f, Decision: d}
		if by.IsZero() {
			by = time.Now().Add(cmp.Or(d.Ask.ReturnAfter, policies.DefaultAskReturnAfter))
		}
		got, r, err := g.ask(ctx, q, time.Until(by))
		switch {
		case err != nil:
			return g.denyUnasked(ctx, c, err), nil, nil, none
		case got == nil:
			return d, nil, nil, none // no approver is available
		case r != nil:
			if got.State != ApprovalPending {
				d.Verdict = policies.Deny
			}
			return d, got, r, none
		}
		// While the person thought, the policy may have changed, and so may the directory
		// and the files that the command uses.
		f.Now = time.Now()
		now := c.from.bind(g.judge(c.Session, *f))
		if now.Verdict != policies.Ask || now.Policy != d.Policy {
			continue
		}
		passed, leave := g.meter.enter(f.Tenant, now.Approved())
		if passed.Verdict != policies.Allow {
			return passed, got, nil, leave
		}
		f.Scene = g.survey(ctx, c, *f, now)
		q.Facts, q.Decision = *f, now
		used, err := g.cfg.Approver.Use(ctx, q, got.ID)
		if used {
			return passed, got, nil, leave
		}
		leave()
		if err != nil {
			return g.denyUnasked(ctx, c, err), nil, nil, none
		}
	}
	return g.denyUnasked(ctx, c, fmt.Errorf("another call used the approval, %d times", triesToUse)), nil, nil, none
}

// judge returns the decision of the policy and of the session's own layer.
func (g *callGate) judge(session *Session, f policies.Facts) policies.Decision {
	d := g.cfg.Gate.Decide(f)
	if l := session.layer.Load(); l != nil {
		d = l.Narrow(d, f)
	}
	return d
}

// ask puts a question and waits for the answer, for at most the duration most. The approval
// is nil if nobody can be asked. If the approval is set and the refusal is nil, a person
// said yes.
func (g *callGate) ask(ctx context.Context, q Question, most time.Duration) (*Approval, *policies.Refusal, error) {
	d, id := q.Decision, q.Call.ID
	ways, may := g.cfg.Approver.Ways(q.Facts.Tenant)
	if !may {
		return nil, nil, nil
	}
	client, elsewhere := elicitorOf(q.Call), len(ways) > 0
	switch {
	case len(ways) == 0 && (client == nil || !client.proven()):
		return nil, nil, nil
	case client != nil:
		ways = append([]string{"the client"}, ways...)
	}
	a, err := g.cfg.Approver.Ask(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	if a.State == ApprovalPending {
		how := NotAsked
		if client != nil {
			how = client.ask(ctx, offer(g.cfg.Approver, q, a, elsewhere))
		}
		if how != AskedByResult { // else the call returns, and the client repeats it
			waited := q.Call.Phase(PhaseAsk)
			a, err = g.cfg.Approver.Wait(ctx, a.ID, max(most, 0))
			waited()
			if err != nil {
				return nil, nil, err
			}
		}
	}
	var r policies.Refusal
	switch a.State {
	case ApprovalApproved, ApprovalUsed: // if an equal call at the same time has used the yes, Use reports it
		return &a, nil, nil
	case ApprovalPending:
		r = d.Waits(id, policies.Question{ID: a.ID, Asked: ways, Expires: a.Left, Command: a.Command})
	default:
		r = d.Declined(id, policies.Answer{ID: a.ID, By: a.By, Note: a.Note, Revoked: a.State == ApprovalRevoked, Itself: a.Via == ViaClientItself, Waited: a.Waited})
	}
	return &a, &r, nil
}

// denyUnasked returns a denial of a call that could not get an approval.
func (g *callGate) denyUnasked(ctx context.Context, c Call, err error) policies.Decision {
	if ctx.Err() == nil { // an error of a cancelled call is not worth a warning
		g.cfg.Log.Warn("a call is refused: its approval could not be asked for or used", "call", c.ID, "tool", c.Tool, "error", err)
	}
	return policies.Decision{
		Verdict: policies.Deny, Rule: RuleApproval,
		Reason:  "The policy requires a person's approval, and belljar could not ask for it: " + err.Error() + ".",
		Instead: "Continue with work that does not need an approval, and tell the person you work for; the log of belljar states the cause.",
	}
}
