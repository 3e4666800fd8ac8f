package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"belljar.dev/internal/people"
	"belljar.dev/internal/store"
	"belljar.dev/policies"
)

// Config is the configuration of a Desk.
type Config struct {
	store.Config // Place is the place in which calls have their effect; a yes is good in this place only
	// Policy returns the hash of the policy that is now in force; it is nil if the policy
	// never changes. A question that was asked under another policy accepts no yes.
	Policy func() string
	// Event is called for each event, from many goroutines, but in order for each approval.
	// It may be nil. The Desk of another process reports the events of that process.
	Event func(Event)
}

// Desk receives the questions of calls and the answers of people.
type Desk struct {
	*people.Desk[Approval]
	place     string
	policy    func() string
	event     func(Event)
	arguments keptArguments
}

// New returns the desk over a store. It does not open the database.
func New(cfg Config) *Desk {
	if cfg.Event == nil {
		cfg.Event = func(Event) {}
	}
	if cfg.Policy == nil {
		cfg.Policy = func() string { return "" }
	}
	expired := func(a Approval) { cfg.Event(Event{Kind: "expired", Approval: a, CallID: a.CallID}) }
	return &Desk{Desk: people.New(cfg.Config, kind, expired), place: cfg.Place, policy: cfg.Policy, event: cfg.Event}
}

// Ask asks a question, or finds the question that an equal call has asked. If an answer is
// good for this call, the Approval contains it. Ask does not wait. asked reports whether
// the question is new.
func (d *Desk) Ask(ctx context.Context, r Request) (a Approval, asked bool, err error) {
	digest, canon, err := bind(d.place, r)
	if err != nil {
		return Approval{}, false, err
	}
	err = d.Write(ctx, func(w *work) error {
		var known bool
		if a, known, err = answered(ctx, w, r, digest, canon); err != nil || known {
			return err
		}
		if a, known, err = planned(ctx, w, d.place, r); err != nil || known {
			return err
		}
		a = d.question(r, digest, canon, w.Now)
		asked = true
		return add(ctx, w, a, r.Decision.Ask.Timeout, r.Decision.Remember.Session, r.Decision.Remember.For)
	})
	if err != nil {
		return Approval{}, false, fmt.Errorf("ask for an approval: %w", err)
	}
	if asked {
		if a.Shown.Cut {
			d.arguments.keep(a.ID, r.Facts)
		}
		d.event(Event{Kind: "asked", Approval: a, CallID: r.CallID})
	}
	return a, asked, nil
}

// answered returns the approval that decides about a call: a yes that is good for the call,
// else a no that is good for it, else a question that waits.
func answered(ctx context.Context, w *work, r Request, digest, canon string) (Approval, bool, error) {
	hash := r.Decision.Policy
	for _, q := range []struct {
		where string
		args  []any
	}{
		{"digest = ? AND policy = ? AND state = 'approved' AND scope = 'once'", []any{digest, hash}},
		{"canon = ? AND canon <> '' AND policy = ? AND state = 'approved' AND (scope = 'hours' OR scope = 'session' AND session = ?)", []any{canon, hash, r.Facts.Session}},
		// A no is good for the time that the question had: it would only tire people to be
		// asked again immediately when an agent repeats its call.
		{"digest = ? AND policy = ? AND state IN ('declined', 'revoked') AND expires > ? ORDER BY answered DESC", []any{digest, hash, w.Now.UnixMilli()}},
		{"digest = ? AND policy = ? AND state = 'pending'", []any{digest, hash}},
	} {
		if a, err := w.One(ctx, q.where, q.args...); !errors.Is(err, people.ErrUnknown) {
			return a, err == nil, err
		}
	}
	return Approval{}, false, nil
}

// question returns a new approval.
func (d *Desk) question(r Request, digest, canon string, now time.Time) Approval {
	now = now.Truncate(time.Millisecond)
	timeout := r.Decision.Ask.Timeout
	if timeout <= 0 {
		timeout = policies.DefaultAskTimeout
	}
	a := Approval{
		ID: people.NewID("ap"), Tenant: r.Facts.Tenant, Principal: r.Principal, Place: d.place, Tool: r.Facts.Tool, CallID: r.CallID,
		Digest: digest, Shown: shown(r.Facts, r.Commands), Yes: Yes{Commands: r.Commands},
		Asker:   Asker{Profile: r.Decision.Offers().Profile(), Rule: r.Decision.Rule, Reason: Plain(r.Decision.Reason, maxLine), Policy: r.Decision.Policy},
		Created: now, Expires: now.Add(timeout), State: Pending,
		sessionID: r.Facts.Session, canon: canon,
	}
	a.Session = a.sessionID[:min(len(a.sessionID), shortSession)]
	a.offer(r.Decision.Remember.Session, r.Decision.Remember.For)
	return a
}
