package approval

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"belljar.dev/internal/store"
	"belljar.dev/policies"
)

// Config says how a Desk is made.
type Config struct {
	store.Config // Place is where calls have their effect: a yes holds in no other
	// Policy returns the hash of the policy that holds now; it is nil if the policy
	// never changes. A question that another policy has asked accepts no answer.
	Policy func() string
	// Event is called for each event, in order for each approval, by many
	// goroutines; it may be nil. An event of another process is reported by the
	// Desk of that process.
	Event func(Event)
}

// Desk receives the questions of calls and the answers of people. Several
// processes may have a Desk over the same store. Its methods are safe for
// concurrent use; it has nothing to close.
type Desk struct {
	kept   store.Book
	policy func() string
	event  func(Event)
	watch  store.Watch // of approvals by their ids
}

// New is the desk over a store. Nothing is opened.
func New(cfg Config) *Desk {
	if cfg.Event == nil {
		cfg.Event = func(Event) {}
	}
	if cfg.Policy == nil {
		cfg.Policy = func() string { return "" }
	}
	return &Desk{kept: store.NewBook(cfg.Config, schema), policy: cfg.Policy, event: cfg.Event}
}

// Ask puts a question, or finds the question that an equal call has put. The
// Approval has the answer if there is one that holds for this call. Ask does not
// wait. asked says that the question is new.
func (d *Desk) Ask(ctx context.Context, r Request) (a Approval, asked bool, err error) {
	digest, canon, err := bind(d.kept.Place, r)
	if err != nil {
		return Approval{}, false, err
	}
	now := d.kept.Now()
	var ended []Approval
	err = d.kept.Write(ctx, func(tx *sql.Tx) error {
		var known bool
		if ended, err = sweep(ctx, tx, now); err != nil {
			return err
		}
		if a, known, err = answered(ctx, tx, r, digest, canon, now); err != nil || known {
			return err
		}
		if a, known, err = planned(ctx, tx, d.kept.Place, r, now); err != nil || known {
			return err
		}
		if err := room(ctx, tx, r.Facts.Tenant); err != nil {
			return err
		}
		a = d.question(r, digest, canon, now)
		asked = true
		return insert(ctx, tx, a, r.Decision.Ask.Timeout, r.Decision.Remember.Session, r.Decision.Remember.For)
	})
	if err != nil {
		return Approval{}, false, fmt.Errorf("ask for an approval: %w", err)
	}
	d.ended(ended)
	if asked {
		d.event(Event{Kind: "asked", Approval: a, CallID: r.CallID})
	}
	return a, asked, nil
}

// answered is the approval that speaks about a call: a yes that holds for it,
// else a no that does, else a question that waits.
func answered(ctx context.Context, tx *sql.Tx, r Request, digest, canon string, now time.Time) (Approval, bool, error) {
	hash := r.Decision.Policy
	for _, q := range []struct {
		where string
		args  []any
	}{
		{"digest = ? AND policy = ? AND state = 'approved' AND scope = 'once'", []any{digest, hash}},
		{"canon = ? AND canon <> '' AND policy = ? AND state = 'approved' AND (scope = 'hours' OR scope = 'session' AND session = ?)", []any{canon, hash, r.Facts.Session}},
		// A no holds as long as the question would have: an agent that asks again
		// at once only makes people tired.
		{"digest = ? AND policy = ? AND state IN ('declined', 'revoked') AND expires > ? ORDER BY answered DESC", []any{digest, hash, now.UnixMilli()}},
		{"digest = ? AND policy = ? AND state = 'pending'", []any{digest, hash}},
	} {
		if a, known, err := found(one(ctx, tx, q.where, q.args...)); err != nil || known {
			return a, known, err
		}
	}
	return Approval{}, false, nil
}

// question is a new approval.
func (d *Desk) question(r Request, digest, canon string, now time.Time) Approval {
	now = now.Truncate(time.Millisecond)
	timeout := r.Decision.Ask.Timeout
	if timeout <= 0 {
		timeout = policies.DefaultAskTimeout
	}
	a := Approval{
		ID: newID(), Tenant: r.Facts.Tenant, Principal: r.Principal, Place: d.kept.Place, Tool: r.Facts.Tool, CallID: r.CallID,
		Digest: digest, Profile: r.Decision.Offers().Profile(), Rule: r.Decision.Rule, Reason: Plain(r.Decision.Reason, maxLine),
		Policy: r.Decision.Policy, Shown: shown(r.Facts, r.Commands), Commands: r.Commands, Created: now, Expires: now.Add(timeout), State: Pending,
		sessionID: r.Facts.Session, canon: canon,
	}
	a.Session = a.sessionID[:min(len(a.sessionID), shortSession)]
	a.offer(r.Decision.Remember.Session, r.Decision.Remember.For)
	return a
}

// newID is short enough to be read out and typed. It opens nothing by itself.
func newID() string { return "ap-" + strings.ToLower(rand.Text()[:8]) }

// Wait returns when an approval is no longer pending, when so much time has
// passed, or when ctx ends, with the approval as it then is.
func (d *Desk) Wait(ctx context.Context, id string, most time.Duration) (a Approval, err error) {
	err = d.watch.Until(ctx, id, most, func() (done bool, err error) {
		got, err := d.Get(ctx, id)
		if err == nil || a.ID == "" {
			a = got
		}
		return a.State != Pending, err
	})
	return a, err
}

// wake wakes the callers that wait for an approval.
func (d *Desk) wake(id string) { d.watch.Wake(id) }

// Stop makes every Wait, also a later one, return at once.
func (d *Desk) Stop() { d.watch.Stop() }

// Get is an approval as it is now, or ErrUnknown.
func (d *Desk) Get(ctx context.Context, id string) (a Approval, err error) {
	err = d.kept.Read(ctx, func(tx *sql.Tx) error {
		a, err = one(ctx, tx, "id = ?", id)
		return err
	})
	if err != nil {
		return Approval{}, fmt.Errorf("approval %s: %w", Plain(id, maxWho), err)
	}
	now := d.kept.Now()
	if a.State == Pending && !a.Expires.After(now) || a.State == Approved && !a.Until.After(now) {
		return d.expire(ctx, a)
	}
	return a, nil
}

// expire stores that an approval has ended.
func (d *Desk) expire(ctx context.Context, a Approval) (Approval, error) {
	var ended []Approval
	err := d.kept.Write(ctx, func(tx *sql.Tx) (err error) {
		ended, err = sweep(ctx, tx, d.kept.Now())
		return err
	})
	if err != nil {
		return Approval{}, fmt.Errorf("approval %s: %w", a.ID, err)
	}
	d.ended(ended)
	a.State = Expired
	return a, nil
}

// ended reports approvals whose time ran out.
func (d *Desk) ended(all []Approval) {
	for _, a := range all {
		d.wake(a.ID)
		d.event(Event{Kind: "expired", Approval: a, CallID: a.CallID})
	}
}

// List are approvals, the newest first, at most 200: those that wait or whose
// yes is still good, or all.
func (d *Desk) List(ctx context.Context, all bool) (list []Approval, err error) {
	where := "state IN ('pending', 'approved')"
	if all {
		where = "true"
	}
	var ended []Approval
	err = d.kept.Write(ctx, func(tx *sql.Tx) error {
		if ended, err = sweep(ctx, tx, d.kept.Now()); err != nil {
			return err
		}
		list, err = some(ctx, tx, where+" ORDER BY created DESC, id LIMIT ?", maxListed)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list approvals: %w", err)
	}
	d.ended(ended)
	return list, nil
}
