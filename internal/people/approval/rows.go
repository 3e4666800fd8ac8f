package approval

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"belljar.dev/internal/store"
)

// columns are those of approvals_all in the order of scan.
const columns = `id, tenant, principal, session, place, tool, call, digest, canon, profile, rule, reason, policy, shown,
	created, expires, may_session, may_for, state, by_whom, via, note, answered, scope, until, uses, commands`

// one is the first approval that a query finds, or ErrUnknown.
func one(ctx context.Context, tx *sql.Tx, where string, args ...any) (Approval, error) {
	all, err := some(ctx, tx, where+" LIMIT 1", args...)
	switch {
	case err != nil:
		return Approval{}, err
	case len(all) == 0:
		return Approval{}, ErrUnknown
	}
	return all[0], nil
}

// some are the approvals that a query finds.
func some(ctx context.Context, tx *sql.Tx, where string, args ...any) ([]Approval, error) {
	return store.Rows(ctx, tx, scan, "SELECT "+columns+" FROM approvals_all WHERE "+where, args...)
}

// changed are the approvals that an update changed, as they are now.
func changed(ctx context.Context, tx *sql.Tx, set string, args ...any) ([]Approval, error) {
	return store.Rows(ctx, tx, scan, "UPDATE approvals_all SET "+set+" RETURNING "+columns, args...)
}

func scan(rows *sql.Rows) (Approval, error) {
	var a Approval
	var text, commands string
	var created, expires, longest, answered, until int64
	var session bool
	err := rows.Scan(&a.ID, &a.Tenant, &a.Principal, &a.sessionID, &a.Place, &a.Tool, &a.CallID, &a.Digest, &a.canon, &a.Profile, &a.Rule,
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

// shortSession is the length of the part of a session's id that is shown: enough
// to recognise the session, too little to use it.
const shortSession = 12

// offer notes what a yes may be good for.
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

// insert writes a new question down.
func insert(ctx context.Context, tx *sql.Tx, a Approval, timeout time.Duration, session bool, longest time.Duration) error {
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
	_, err = tx.ExecContext(ctx, `INSERT INTO approvals_all (id, tenant, principal, session, place, tool, call, digest, canon, profile, rule, reason, policy,
		shown, created, expires, timeout, may_session, may_for, state, commands) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		a.ID, a.Tenant, a.Principal, a.sessionID, a.Place, a.Tool, a.CallID, a.Digest, a.canon, a.Profile, a.Rule, a.Reason, a.Policy,
		string(text), a.Created.UnixMilli(), a.Expires.UnixMilli(), timeout.Milliseconds(), session, longest.Milliseconds(), string(a.State), string(commands))
	return err
}

// sweep ends what nobody answered or used in time, and forgets what ended long
// ago. It returns what it ended.
func sweep(ctx context.Context, tx *sql.Tx, now time.Time) ([]Approval, error) {
	ended, err := changed(ctx, tx, "state = 'expired' WHERE state = 'pending' AND expires <= ?1 OR state = 'approved' AND until <= ?1", now.UnixMilli())
	if err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM approvals_all WHERE state NOT IN ('pending', 'approved') AND max(created, answered, expires) < ?",
		now.Add(-keepEnded).UnixMilli())
	return ended, err
}

// room makes sure that one more question fits.
func room(ctx context.Context, tx *sql.Tx, tenant string) error {
	var pending, all int
	err := tx.QueryRowContext(ctx, "SELECT count(*) FILTER (WHERE state = 'pending' AND tenant = ?), count(*) FROM approvals_all", tenant).Scan(&pending, &all)
	switch {
	case err != nil:
		return err
	case pending >= maxPending:
		return fmt.Errorf("%w: %d", ErrTooMany, pending)
	case all < maxKept:
		return nil
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM approvals_all WHERE id IN (
		SELECT id FROM approvals_all WHERE state NOT IN ('pending', 'approved') ORDER BY created LIMIT ?)`, all-maxKept+1)
	return err
}

// found returns nil for the error that says that no row was found.
func found(a Approval, err error) (Approval, bool, error) {
	if errors.Is(err, ErrUnknown) {
		return Approval{}, false, nil
	}
	return a, err == nil, err
}
