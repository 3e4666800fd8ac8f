package approval

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"belljar.dev/internal/people"
	"belljar.dev/internal/store"
)

// work is a transaction on approvals.
type work = people.Work[Approval]

// kind describes how approvals are stored.
var kind = people.Kind[Approval]{
	Name: "approval", Schema: schema, Table: "approvals_all", Scan: scan,
	Columns: `id, tenant, principal, session, place, tool, call, digest, canon, profile, rule, reason, policy, shown,
	created, expires, may_session, may_for, state, by_whom, via, note, answered, scope, until, uses, commands`,
	Status: func(a Approval) (id string, waits bool, ends time.Time) {
		switch a.State {
		case Pending:
			ends = a.Expires
		case Approved:
			ends = a.Until
		case Declined, Expired, Used, Revoked:
		}
		return a.ID, a.State == Pending, ends
	},
	Shown:   func(id string) string { return Plain(id, maxWho) },
	Waiting: string(Pending), Live: "state IN ('pending', 'approved')",
	Ends:        "state = 'expired' WHERE state = 'pending' AND expires <= ?1 OR state = 'approved' AND until <= ?1",
	MostWaiting: maxPending, MostKept: maxKept, MostListed: maxListed,
}

func scan(row *sql.Rows) (Approval, error) {
	var a Approval
	var text, commands string
	var created, expires, longest, answered, until int64
	var session bool
	err := row.Scan(&a.ID, &a.Tenant, &a.Principal, &a.sessionID, &a.Place, &a.Tool, &a.CallID, &a.Digest, &a.canon, &a.Profile, &a.Rule,
		&a.Reason, &a.Policy, &text, &created, &expires, &session, &longest, &a.State, &a.By, &a.Via, &a.Note, &answered, &a.Scope, &until, &a.Uses, &commands)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal([]byte(text), &a.Shown); err != nil {
		return a, fmt.Errorf("read approval %s: %w", a.ID, err)
	}
	if commands != "" {
		if err := json.Unmarshal([]byte(commands), &a.Commands); err != nil {
			return a, fmt.Errorf("read approval %s: %w", a.ID, err)
		}
	}
	a.Created, a.Expires, a.Answered, a.Until = store.Time(created), store.Time(expires), store.Time(answered), store.Time(until)
	a.Session = a.sessionID[:min(len(a.sessionID), shortSession)]
	a.offer(session, time.Duration(longest)*time.Millisecond)
	return a, nil
}

// shortSession is the number of characters of a session's ID that are shown: enough to
// recognise the session, too few to use it.
const shortSession = 12

// offer sets the scopes that a yes may have.
func (a *Approval) offer(session bool, longest time.Duration) {
	a.Scopes = []Scope{Once}
	if a.canon == "" {
		return
	}
	if session {
		a.Scopes = append(a.Scopes, Session)
	}
	if longest > 0 {
		a.Scopes, a.For = append(a.Scopes, Hours), longest
	}
}

// add stores a new question.
func add(ctx context.Context, w *work, a Approval, timeout time.Duration, session bool, longest time.Duration) error {
	text, err := json.Marshal(a.Shown)
	if err != nil {
		return err
	}
	var commands []byte
	if len(a.Commands) > 0 {
		if commands, err = json.Marshal(a.Commands); err != nil {
			return err
		}
	}
	return w.Add(ctx, a.Tenant, `id, tenant, principal, session, place, tool, call, digest, canon, profile, rule, reason, policy,
		shown, created, expires, timeout, may_session, may_for, state, commands`,
		a.ID, a.Tenant, a.Principal, a.sessionID, a.Place, a.Tool, a.CallID, a.Digest, a.canon, a.Profile, a.Rule, a.Reason, a.Policy,
		string(text), a.Created.UnixMilli(), a.Expires.UnixMilli(), timeout.Milliseconds(), session, longest.Milliseconds(), string(a.State), string(commands))
}
