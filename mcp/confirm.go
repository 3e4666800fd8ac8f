package mcp

import (
	"cmp"
	"context"
	"errors"
	"time"

	"belljar.dev/policies"
)

// Wish is what a handler wants a person's yes for, although the policy has allowed
// the call: leaving plan mode, for example.
type Wish struct {
	Rule   string // the name that is shown in place of a rule's
	Reason string // why, for the person and the agent
	// Args are what the person is shown, and what the yes is bound to.
	Args map[string]any
	// Commands are patterns of commands that the yes is good for as well.
	Commands []string
}

// Confirmed is the outcome of a Wish.
type Confirmed struct {
	Asked    bool     // false: nobody can be asked
	Yes      bool     // somebody said yes, and that yes is used
	Approval Approval // where somebody was asked
	Refusal  *policies.Refusal
}

// Confirm asks a person, in the way that the policy does for calls: it creates an
// approval. Without a yes in time the handler should return Refusal's text or a
// similar one: the same call, made again, finds the answer.
func (c Call) Confirm(ctx context.Context, w Wish) (Confirmed, error) {
	s := c.Session.server
	if c.allowed == nil {
		return Confirmed{}, nil
	}
	f, d := c.allowed.facts, c.allowed.decision
	f.Args, f.Command = w.Args, ""
	d.Verdict, d.Rule, d.Reason, d.Remember = policies.Ask, w.Rule, w.Reason, policies.Remember{}
	q := Question{Call: c, Facts: f, Decision: d, Commands: w.Commands}
	a, refusal, err := s.gate.ask(ctx, q, cmp.Or(d.Ask.ReturnAfter, policies.DefaultAskReturnAfter))
	switch {
	case err != nil:
		return Confirmed{}, err
	case a == nil:
		return Confirmed{}, nil
	case refusal != nil:
		return Confirmed{Asked: true, Approval: *a, Refusal: refusal}, nil
	}
	used, err := s.cfg.Approver.Use(ctx, q, a.ID)
	if err == nil && !used {
		err = errors.New("another call used the approval; make this call again")
	}
	return Confirmed{Asked: true, Yes: used, Approval: *a}, err
}

// Judge returns what the policy would decide about another call of the same session, of
// the tool that the facts name, made now. Nothing is recorded, and nobody is asked: a
// handler that does many things with one call learns so which of them it must leave out.
func (c Call) Judge(ctx context.Context, f policies.Facts) policies.Decision {
	g := c.Session.server.gate
	if t, ok := g.tools.find(c.Session.tenant, f.Tool); ok {
		t.show(&f)
	}
	f.Tenant, f.Session, f.Now = c.Session.tenant, c.Session.id, time.Now()
	if scopes := g.cfg.callerOf(ctx).Scopes; len(scopes) > 0 { // else those that a grant's call had
		f.Scopes = scopes
	}
	return g.judge(c.Session, f)
}
