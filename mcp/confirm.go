package mcp

import (
	"cmp"
	"context"
	"errors"

	"belljar.dev/policies"
)

// Wish is what a handler wants a person's yes for, where the policy has let the
// call run: as leaving plan mode.
type Wish struct {
	Rule   string // what asks, where a rule's name stands otherwise
	Reason string // why, for the person and the agent
	// Args are what the person is shown, and what the yes is bound to.
	Args map[string]any
	// Commands are patterns of commands that the yes is good for as well.
	Commands []string
}

// Confirmed is what came of a Wish.
type Confirmed struct {
	Asked    bool     // false: nobody can be asked
	Yes      bool     // and the yes is used
	Approval Approval // where somebody was asked
	Refusal  *policies.Refusal
}

// Confirm asks a person, as the policy does for calls: it is an approval as
// those are. Without a yes in time the handler returns what Refusal says, or the
// like: the same call, made again, finds the answer.
func (c Call) Confirm(ctx context.Context, w Wish) (Confirmed, error) {
	s := c.Session.server
	if s.cfg.Approver == nil {
		return Confirmed{}, nil
	}
	f, d := c.facts, c.allow
	f.Args, f.Command = w.Args, ""
	d.Verdict, d.Rule, d.Reason, d.Remember = policies.Ask, w.Rule, w.Reason, policies.Remember{}
	q := Question{Call: c, Facts: f, Decision: d, Commands: w.Commands}
	a, refusal, err := s.ask(ctx, q, cmp.Or(d.Ask.ReturnAfter, policies.DefaultAskReturnAfter))
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
