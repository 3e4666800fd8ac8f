package mcp

import (
	"cmp"
	"context"
	"errors"
	"time"

	"belljar.dev/policies"
)

// Wish is an action for which a handler wants a person's yes although the policy has
// allowed the call, for example leaving plan mode.
type Wish struct {
	Rule   string // name that is shown in place of a rule
	Reason string // why a yes is needed, for the person and the agent
	// Args are shown to the person. The yes is valid only for these.
	Args map[string]any
	// Commands are patterns of commands for which the yes is also valid.
	Commands []string
}

// Confirmed is the outcome of a Wish.
type Confirmed struct {
	Asked    bool     // false if nobody can be asked
	Yes      bool     // a person said yes, and the yes is now used
	Approval Approval // the approval, if Asked is true
	Refusal  *policies.Refusal
}

// Confirm asks a person in the same way as the policy does for calls: it creates an
// approval. Without a yes in time, the handler should return the text of Refusal or a
// similar text: if the agent makes the same call again, the call finds the answer.
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

// Judge returns what the policy would decide now about another call of the same session,
// for the tool that the facts name. It records nothing and asks nobody. A handler that does
// many things in one call can use it to find out which of them to leave out.
func (c Call) Judge(ctx context.Context, f policies.Facts) policies.Decision {
	g := c.Session.server.gate
	if t, ok := g.tools.find(c.Session.tenant, f.Tool); ok {
		t.show(&f)
	}
	f.Tenant, f.Session, f.Now = c.Session.tenant, c.Session.id, time.Now()
	if scopes := g.cfg.callerOf(ctx).Scopes; len(scopes) > 0 { // else f keeps the scopes that the caller set
		f.Scopes = scopes
	}
	return g.judge(c.Session, f)
}
