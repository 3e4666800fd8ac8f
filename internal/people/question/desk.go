package question

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"belljar.dev/internal/people"
	"belljar.dev/internal/store"
)

// State is the state of a question.
type State string

// The states. All except Waiting are final.
const (
	Waiting   State = "waiting"
	Accepted  State = "accept"  // a person has answered
	Declined  State = "decline" // a person does not want to answer
	Dismissed State = "cancel"  // a person has dismissed the question
	TimedOut  State = "timeout" // nobody answered in time
)

// Bounds of a desk.
const (
	maxWaiting = 16   // most questions of one tenant that wait
	maxKept    = 1000 // most questions in all, including those that have ended
	maxListed  = 100
	maxNote    = 500
)

// The errors of a question or an answer.
var (
	ErrOver   = errors.New("it is over")
	ErrAnswer = errors.New("the answer does not fit")
)

// Asked is a sheet that was put to people, and its answer.
type Asked struct {
	ID      string `json:"id"` // "q-" and random letters
	Tenant  string `json:"tenant"`
	Place   string `json:"place"` // path of the workspace
	Session string `json:"session"`
	Sheet   Sheet  `json:"sheet"`
	New     bool   `json:"-"` // whether this call put the sheet, and not an equal earlier call

	Created time.Time         `json:"created"`
	Expires time.Time         `json:"expires"`
	State   State             `json:"state"`
	Answers map[string]Answer `json:"answers,omitempty"`
	people.Said
}

// Version returns what an answer is bound to: the texts of the questions.
func (a Asked) Version() string {
	text, err := json.Marshal(a.Sheet)
	if err != nil {
		return "" // does not happen: texts and numbers can always be marshalled
	}
	sum := sha256.Sum256(append([]byte(a.ID+"\n"), text...))
	return hex.EncodeToString(sum[:])[:16]
}

// Reply is the reaction of a person to a sheet.
type Reply struct {
	State State               // Accepted, Declined or Dismissed
	Words map[string][]string // the words for Sheet.Read, if State is Accepted
	Note  string              // note of the person for the agent
	By    string
	Via   string
}

// Desk receives the questions of agents and the answers of people.
type Desk struct {
	*people.Desk[Asked]
	place string
}

// New returns the desk in a store. It does not open the database.
func New(cfg store.Config) *Desk {
	return &Desk{people.New(cfg, kind, func(Asked) {}), cfg.Place}
}

// Ask puts a sheet to people. If the tenant has put an equal sheet that waits, or whose
// answer has not been delivered yet, Ask returns that one. It does not wait.
func (d *Desk) Ask(ctx context.Context, o store.Owner, s Sheet) (a Asked, err error) {
	text, err := json.Marshal(s)
	if err != nil {
		return a, fmt.Errorf("ask: %w", err)
	}
	owner, err := json.Marshal([]string{o.Tenant, d.place})
	if err != nil {
		return a, fmt.Errorf("ask: %w", err)
	}
	sum := sha256.Sum256(append(owner, text...))
	digest := hex.EncodeToString(sum[:])
	err = d.Write(ctx, func(w *work) error {
		all, err := w.Some(ctx, "digest = ? AND told = 0 ORDER BY created DESC LIMIT 1", digest)
		if err != nil {
			return err
		}
		if len(all) == 1 {
			a = all[0]
			return nil
		}
		now := w.Now.Truncate(time.Millisecond)
		a = Asked{
			ID: people.NewID("q"), Tenant: o.Tenant, Place: d.place, Session: o.Session[:min(len(o.Session), 12)], Sheet: s, New: true,
			Created: now, Expires: now.Add(s.Life), State: Waiting,
		}
		return w.Add(ctx, a.Tenant, "id, tenant, place, session, digest, sheet, created, expires, state",
			a.ID, a.Tenant, a.Place, a.Session, digest, string(text), a.Created.UnixMilli(), a.Expires.UnixMilli(), string(Waiting))
	})
	if err != nil {
		return Asked{}, fmt.Errorf("ask: %w", err)
	}
	return a, nil
}

// Answer records the reaction of a person. The first answer counts; later answers get
// ErrOver. When Answer returns, the answer is on the disk.
func (d *Desk) Answer(ctx context.Context, id string, r Reply) (Asked, error) {
	a, _, err := d.Desk.Answer(ctx, id, r.settle)
	if err != nil {
		return a, fmt.Errorf("answer %s: %w", shown(id), err)
	}
	return a, nil
}

// settle returns the changes that a reply makes to a question.
func (r Reply) settle(a Asked, now time.Time) (set string, args []any, err error) {
	if a.State != Waiting {
		return "", nil, fmt.Errorf("%w: %s", ErrOver, a.Over())
	}
	answers := map[string]Answer{}
	switch r.State {
	case Accepted:
		if answers, err = a.Sheet.Read(r.Words); err != nil {
			return "", nil, fmt.Errorf("%w: %w", ErrAnswer, err)
		}
		if len(answers) == 0 {
			return "", nil, fmt.Errorf("%w: no question has an answer", ErrAnswer)
		}
	case Declined, Dismissed:
	case Waiting, TimedOut:
		return "", nil, fmt.Errorf("%w: a reply cannot have the state %q", ErrAnswer, r.State)
	default:
		return "", nil, fmt.Errorf("%w: a reply cannot have the state %q", ErrAnswer, r.State)
	}
	text, err := json.Marshal(answers)
	return "state = ?, answers = ?, by_whom = ?, via = ?, note = ?, answered = ?",
		[]any{string(r.State), string(text), clip(Clean(r.By, false), maxLabel), r.Via, clip(Clean(r.Note, false), maxNote), now.UnixMilli()}, err
}

// Over returns how a question ended, in words.
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

// Told records that the agent has received the answer. From then on, an equal question is a
// new question.
func (d *Desk) Told(ctx context.Context, id string) error {
	err := d.Write(ctx, func(w *work) error {
		_, err := w.Change(ctx, "told = 1 WHERE id = ?", id)
		return err
	})
	if err != nil {
		return fmt.Errorf("record that the answer of %s was delivered: %w", id, err)
	}
	return nil
}
