package question

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"belljar.dev/internal/store"
)

// State is the state of a question.
type State string

// The states. From Accepted on nothing changes any more.
const (
	Waiting   State = "waiting"
	Accepted  State = "accept"  // a person has answered
	Declined  State = "decline" // does not want to
	Dismissed State = "cancel"  // put it away
	TimedOut  State = "timeout" // nobody answered in time
)

// Bounds of a desk.
const (
	maxWaiting = 16   // questions of one tenant that wait
	maxKept    = 1000 // of those that are over
	keepEnded  = 7 * 24 * time.Hour
	maxListed  = 100
	maxNote    = 500
)

// What can be wrong with a question or an answer.
var (
	ErrUnknown = errors.New("there is no such question")
	ErrOver    = errors.New("it is over")
	ErrTooMany = errors.New("too many questions wait for an answer")
	ErrAnswer  = errors.New("the answer does not fit")
)

// Asked is a sheet that was put to people, and its answer.
type Asked struct {
	ID      string `json:"id"` // "q-" and random letters
	Tenant  string `json:"tenant"`
	Place   string `json:"place"` // the workspace
	Session string `json:"session"`
	Sheet   Sheet  `json:"sheet"`
	New     bool   `json:"-"` // this call asked; an equal one had not before

	Created  time.Time         `json:"created"`
	Expires  time.Time         `json:"expires"`
	State    State             `json:"state"`
	Answers  map[string]Answer `json:"answers,omitempty"`
	By       string            `json:"by,omitempty"`
	Via      string            `json:"via,omitempty"`
	Note     string            `json:"note,omitempty"`
	Answered time.Time         `json:"answered,omitzero"`
}

// Reply is what a person does with a sheet.
type Reply struct {
	State State               // Accepted, Declined or Dismissed
	Words map[string][]string // with Accepted: the arguments of Sheet.Read
	Note  string              // for the agent
	By    string
	Via   string
}

// Desk is where agents put their questions and people their answers. Several
// processes may have one over the same store. Its methods are safe for
// concurrent use; it has nothing to close.
type Desk struct {
	kept  store.Book
	watch store.Watch
}

// New is the desk in a store. Nothing is opened.
func New(cfg store.Config) *Desk { return &Desk{kept: store.NewBook(cfg, schema)} }

// Ask puts a sheet, or finds an equal one of the tenant that waits or whose answer has
// not been delivered yet. It does not wait.
func (d *Desk) Ask(ctx context.Context, o store.Owner, s Sheet) (a Asked, err error) {
	text, err := json.Marshal(s)
	if err != nil {
		return a, fmt.Errorf("ask: %w", err)
	}
	owner, err := json.Marshal([]string{o.Tenant, d.kept.Place})
	if err != nil {
		return a, fmt.Errorf("ask: %w", err)
	}
	sum := sha256.Sum256(append(owner, text...))
	digest, now := hex.EncodeToString(sum[:]), d.kept.Now().Truncate(time.Millisecond)
	err = d.kept.Write(ctx, func(tx *sql.Tx) error {
		if err := sweep(ctx, tx, now); err != nil {
			return err
		}
		all, err := some(ctx, tx, "digest = ? AND told = 0 ORDER BY created DESC LIMIT 1", digest)
		if err != nil {
			return err
		}
		if len(all) == 1 {
			a = all[0]
			return nil
		}
		var waiting int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM questions_all WHERE state = 'waiting' AND tenant = ?", o.Tenant).Scan(&waiting); err != nil {
			return err
		}
		if waiting >= maxWaiting {
			return fmt.Errorf("%w: %d", ErrTooMany, waiting)
		}
		a = Asked{
			ID: "q-" + strings.ToLower(rand.Text()[:8]), Tenant: o.Tenant, Place: d.kept.Place, Session: o.Session[:min(len(o.Session), 12)], Sheet: s, New: true,
			Created: now, Expires: now.Add(s.Life), State: Waiting,
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO questions_all (id, tenant, place, session, digest, sheet, created, expires, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			a.ID, o.Tenant, d.kept.Place, a.Session, digest, string(text), a.Created.UnixMilli(), a.Expires.UnixMilli(), string(Waiting))
		return err
	})
	if err != nil {
		return Asked{}, fmt.Errorf("ask: %w", err)
	}
	return a, nil
}

// Answer records what a person does. The first answer counts; later ones get ErrOver.
// When it returns, the answer is on the disk.
func (d *Desk) Answer(ctx context.Context, id string, r Reply) (a Asked, err error) {
	now := d.kept.Now().Truncate(time.Millisecond)
	err = d.kept.Write(ctx, func(tx *sql.Tx) error {
		if err := sweep(ctx, tx, now); err != nil {
			return err
		}
		if a, err = one(ctx, tx, id); err != nil {
			return err
		}
		if a.State != Waiting {
			return fmt.Errorf("%w: %s", ErrOver, a.Over())
		}
		answers := map[string]Answer{}
		switch r.State {
		case Accepted:
			if answers, err = a.Sheet.Read(r.Words); err != nil {
				return fmt.Errorf("%w: %w", ErrAnswer, err)
			}
			if len(answers) == 0 {
				return fmt.Errorf("%w: no question has one", ErrAnswer)
			}
		case Declined, Dismissed:
		case Waiting, TimedOut:
			return fmt.Errorf("%w: a reply cannot have the state %q", ErrAnswer, r.State)
		default:
			return fmt.Errorf("%w: a reply cannot have the state %q", ErrAnswer, r.State)
		}
		a.State, a.Answers, a.By, a.Via, a.Note, a.Answered = r.State, answers, clip(Clean(r.By, false), maxLabel), r.Via, clip(Clean(r.Note, false), maxNote), now
		text, err := json.Marshal(answers)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE questions_all SET state = ?, answers = ?, by_whom = ?, via = ?, note = ?, answered = ? WHERE id = ?",
			string(a.State), string(text), a.By, a.Via, a.Note, now.UnixMilli(), id)
		return err
	})
	if err != nil {
		return a, fmt.Errorf("answer %s: %w", clip(Clean(id, false), maxLabel), err)
	}
	d.watch.Wake(id)
	return a, nil
}

// Over says how a question ended.
func (a Asked) Over() string {
	switch a.State {
	case Accepted:
		return fmt.Sprintf("%s has answered by %s", a.By, a.Via)
	case Declined, Dismissed:
		return fmt.Sprintf("%s did not want to answer", a.By)
	case TimedOut:
		return "nobody answered in time"
	case Waiting:
	}
	return "it waits"
}

// Told records that the agent has received the answer: from then on an equal question is
// a new one.
func (d *Desk) Told(ctx context.Context, id string) error {
	err := d.kept.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE questions_all SET told = 1 WHERE id = ?", id)
		return err
	})
	if err != nil {
		return fmt.Errorf("tell the answer of %s: %w", id, err)
	}
	return nil
}

// Wait waits until a question has ended, most has passed or ctx ends, and returns the
// question in its state then.
func (d *Desk) Wait(ctx context.Context, id string, most time.Duration) (a Asked, err error) {
	err = d.watch.Until(ctx, id, most, func() (bool, error) {
		got, err := d.Get(ctx, id)
		if err == nil {
			a = got
		}
		return a.State != Waiting, err
	})
	return a, err
}

// Stop makes every Wait return at once, now and from now on.
func (d *Desk) Stop() { d.watch.Stop() }

// Get is a question as it is now, or ErrUnknown.
func (d *Desk) Get(ctx context.Context, id string) (a Asked, err error) {
	err = d.kept.Read(ctx, func(tx *sql.Tx) error {
		a, err = one(ctx, tx, id)
		return err
	})
	if err != nil {
		return Asked{}, fmt.Errorf("question %s: %w", clip(Clean(id, false), maxLabel), err)
	}
	if a.State == Waiting && !a.Expires.After(d.kept.Now()) {
		a.State = TimedOut // already true; the next question or answer records it
	}
	return a, nil
}

// List are questions, the newest first, at most 100: those that wait, or all.
func (d *Desk) List(ctx context.Context, all bool) (list []Asked, err error) {
	where := "state = 'waiting'"
	if all {
		where = "true"
	}
	err = d.kept.Write(ctx, func(tx *sql.Tx) error {
		if err := sweep(ctx, tx, d.kept.Now()); err != nil {
			return err
		}
		list, err = some(ctx, tx, where+" ORDER BY created DESC, id LIMIT ?", maxListed)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list questions: %w", err)
	}
	return list, nil
}

func one(ctx context.Context, tx *sql.Tx, id string) (Asked, error) {
	all, err := some(ctx, tx, "id = ?", id)
	switch {
	case err != nil:
		return Asked{}, err
	case len(all) == 0:
		return Asked{}, ErrUnknown
	}
	return all[0], nil
}

func some(ctx context.Context, tx *sql.Tx, where string, args ...any) ([]Asked, error) {
	return store.Rows(ctx, tx, scan, "SELECT id, tenant, place, session, sheet, created, expires, state, answers, by_whom, via, note, answered FROM questions_all WHERE "+where, args...)
}

func scan(row *sql.Rows) (a Asked, err error) {
	var sheet, answers string
	var created, expires, answered int64
	if err := row.Scan(&a.ID, &a.Tenant, &a.Place, &a.Session, &sheet, &created, &expires, &a.State, &answers, &a.By, &a.Via, &a.Note, &answered); err != nil {
		return a, err
	}
	if err := errors.Join(json.Unmarshal([]byte(sheet), &a.Sheet), json.Unmarshal([]byte(answers), &a.Answers)); err != nil {
		return a, fmt.Errorf("read question %s: %w", a.ID, err)
	}
	a.Created, a.Expires, a.Answered = store.Time(created), store.Time(expires), store.Time(answered)
	return a, nil
}

// sweep ends the questions that nobody answered in time, and removes old ones.
func sweep(ctx context.Context, tx *sql.Tx, now time.Time) error {
	_, err := tx.ExecContext(ctx, "UPDATE questions_all SET state = 'timeout' WHERE state = 'waiting' AND expires <= ?", now.UnixMilli())
	if err == nil {
		_, err = tx.ExecContext(ctx, "DELETE FROM questions_all WHERE state <> 'waiting' AND max(created, answered, expires) < ?", now.Add(-keepEnded).UnixMilli())
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "DELETE FROM questions_all WHERE id IN (SELECT id FROM questions_all WHERE state <> 'waiting' ORDER BY created DESC LIMIT -1 OFFSET ?)", maxKept)
	}
	return err
}
