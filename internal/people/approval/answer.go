package approval

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"belljar.dev/policies"
)

// Answer stores the answer of a person. The first answer counts: the same answer again
// changes nothing and is not an error; a different answer returns ErrAnswered. When Answer
// returns, the answer is on the disk.
func (d *Desk) Answer(ctx context.Context, id string, r Reply) (Approval, error) {
	r.By, r.Via, r.Note = Plain(r.By, maxWho), Plain(r.Via, maxWho), Plain(r.Note, maxNote)
	a, first, err := d.Desk.Answer(ctx, id, func(a Approval, now time.Time) (set string, args []any, err error) { return d.settle(a, r, now) })
	if err != nil {
		return a, fmt.Errorf("answer approval %s: %w", Plain(id, maxWho), err)
	}
	if first {
		what := "refused"
		if r.Yes {
			what = "given"
		}
		d.event(Event{Kind: what, Approval: a, CallID: a.CallID})
	}
	return a, nil
}

// settle returns the changes that an answer makes. It returns none if the same answer was
// given before.
func (d *Desk) settle(a Approval, r Reply, now time.Time) (set string, args []any, err error) {
	switch a.State {
	case Pending:
	case Approved, Used:
		if r.Yes && cmp.Or(r.Scope, Once) == a.Scope && !r.First {
			return "", nil, nil
		}
		return "", nil, fmt.Errorf("%w: %s said yes for %s by %s", ErrAnswered, a.By, a.Scope, a.Via)
	case Declined:
		if !r.Yes && !r.First {
			return "", nil, nil
		}
		return "", nil, fmt.Errorf("%w: %s said no by %s", ErrAnswered, a.By, a.Via)
	case Revoked:
		return "", nil, fmt.Errorf("%w: the yes was revoked", ErrOver)
	case Expired:
		return "", nil, fmt.Errorf("%w: nobody answered in time; the call has to be made again", ErrOver)
	}
	if !a.Expires.After(now) {
		return "", nil, fmt.Errorf("%w: nobody answered in time; the call has to be made again", ErrOver)
	}
	if !r.Yes {
		return "state = 'declined', by_whom = ?, via = ?, note = ?, answered = ?", []any{r.By, r.Via, r.Note, now.UnixMilli()}, nil
	}
	if now := d.policy(); now != "" && a.Place == d.place && a.Policy != now {
		return "", nil, fmt.Errorf("%w; the call has to be made again", ErrPolicy)
	}
	until, err := a.until(r, now)
	if err != nil {
		return "", nil, err
	}
	return "state = 'approved', by_whom = ?, via = ?, note = ?, answered = ?, scope = ?, until = ?",
		[]any{r.By, r.Via, r.Note, now.UnixMilli(), string(cmp.Or(r.Scope, Once)), until.UnixMilli()}, nil
}

// until returns the time at which a yes ends. A yes for a single call ends after the time
// that the question had: the agent was asked to repeat the call, but may never do so.
func (a *Approval) until(r Reply, now time.Time) (time.Time, error) {
	scope := cmp.Or(r.Scope, Once)
	if !slices.Contains(a.Scopes, scope) {
		why := "the policy does not let a yes to this rule be given for more"
		if a.canon == "" {
			why = "the text of this call does not show all that it does"
		}
		return time.Time{}, fmt.Errorf("%w, only for %s: %s", ErrScope, a.Offers(), why)
	}
	switch scope {
	case Session:
		return now.Add(maxSession), nil
	case Hours:
		if r.For < 0 || r.For > a.For {
			return time.Time{}, fmt.Errorf("%w, only for %s: %s is longer than the policy lets a yes live", ErrScope, a.Offers(), policies.Spoken(r.For))
		}
		return now.Add(cmp.Or(r.For, a.For)), nil
	case Once:
	}
	return now.Add(a.Expires.Sub(a.Created)), nil
}

// Use uses a yes for a call that begins now. It returns false if another call has used the
// yes, or if the yes has ended or was revoked: then the call must not run. When Use
// returns true, the use is on the disk, so a yes for one call is used only once, whatever
// happens to this process.
func (d *Desk) Use(ctx context.Context, id string, r Request) (bool, error) {
	digest, canon, err := bind(d.place, r)
	if err != nil {
		return false, err
	}
	var used []Approval
	err = d.Write(ctx, func(w *work) error {
		used, err = w.Change(ctx, `uses = uses + 1, state = CASE scope WHEN 'once' THEN 'used' ELSE state END
			WHERE id = ? AND state = 'approved' AND until > ? AND policy = ?
			AND (scope = 'once' AND digest = ? OR canon = ? AND canon <> '' AND (scope = 'hours' OR scope = 'session' AND session = ?))`,
			id, w.Now.UnixMilli(), r.Decision.Policy, digest, canon, r.Facts.Session)
		if err != nil || len(used) > 0 {
			return err
		}
		a, ok, err := planned(ctx, w, d.place, r)
		if err != nil || !ok || a.ID != id {
			return err
		}
		used, err = w.Change(ctx, "uses = uses + 1 WHERE id = ?", id)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("use approval %s: %w", Plain(id, maxWho), err)
	}
	for _, a := range used {
		d.event(Event{Kind: "used", Approval: a, CallID: r.CallID})
	}
	return len(used) == 1, nil
}

// Revoke revokes a yes. Calls that already run with it continue. A second Revoke is not
// an error.
func (d *Desk) Revoke(ctx context.Context, id, by, via string) (Approval, error) {
	a, first, err := d.Desk.Answer(ctx, id, func(a Approval, now time.Time) (set string, args []any, err error) {
		switch a.State {
		case Approved:
		case Revoked:
			return "", nil, nil
		case Pending:
			return "", nil, fmt.Errorf("%w; say no instead", ErrOpen)
		case Used, Declined, Expired:
			if a.State == Used && len(a.Commands) > 0 {
				break // the yes to a plan, whose commands may still run
			}
			return "", nil, fmt.Errorf("%w: it is %s", ErrOver, a.State)
		}
		return "state = 'revoked', by_whom = ?, via = ?, answered = ?", []any{Plain(by, maxWho), Plain(via, maxWho), now.UnixMilli()}, nil
	})
	if err != nil {
		return a, fmt.Errorf("revoke approval %s: %w", Plain(id, maxWho), err)
	}
	if first {
		d.event(Event{Kind: "revoked", Approval: a, CallID: a.CallID})
	}
	return a, nil
}
