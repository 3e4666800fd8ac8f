package todo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Status is the state of a todo or a step.
type Status string

// The statuses. A todo that is Pending and current in a session is InProgress there. At
// most one step of a todo is InProgress.
const (
	Pending    Status = "pending"
	InProgress Status = "in_progress"
	Completed  Status = "completed"
	Blocked    Status = "blocked"
	Cancelled  Status = "cancelled"
)

// Statuses lists all statuses, by the names that agents use.
var Statuses = []Status{Pending, InProgress, Completed, Blocked, Cancelled}

// Open reports whether there is something left to do.
func (s Status) Open() bool { return s != Completed && s != Cancelled }

// Step is a part of a todo.
type Step struct {
	ID     int64
	Text   string
	Status Status
}

// Todo is something to do.
type Todo struct {
	ID      int64
	Name    string
	Status  Status
	Steps   []Step
	Created time.Time
	Changed time.Time
	Current bool // whether it is the current todo of the calling session
}

// Left returns how many steps are open.
func (t *Todo) Left() int {
	n := 0
	for _, s := range t.Steps {
		if s.Status.Open() {
			n++
		}
	}
	return n
}

// Bounds of what a Book stores.
const (
	MaxTodos    = 500  // todos of one tenant in one workspace; ended todos are deleted to make room
	MaxSteps    = 200  // steps of one todo
	MaxText     = 2000 // characters of a todo's name or a step's text
	maxSessions = 200  // sessions of one tenant in one workspace whose current todo is remembered
)

// The kinds of error of a wrong request. An error wraps one of them, and its text is for
// the agent.
var (
	ErrUnknown = errors.New("unknown id")
	ErrText    = errors.New("unusable text")
	ErrStatus  = errors.New("impossible status")
	ErrFull    = errors.New("no room")
)

// Told reports whether the text of an error is for the agent, because its request was
// wrong. Other errors come from the store.
func Told(err error) bool {
	return slices.ContainsFunc([]error{ErrUnknown, ErrText, ErrStatus, ErrFull}, func(e error) bool { return errors.Is(err, e) })
}

// fault is an error with its own text that wraps one of the kinds.
type fault struct {
	kind error
	text string
}

func (f *fault) Error() string { return f.text }
func (f *fault) Unwrap() error { return f.kind }

func wrong(kind error, format string, args ...any) error {
	return &fault{kind, fmt.Sprintf(format, args...)}
}

// clean returns a text in one line, as it is stored, or an error that says why it cannot be
// stored.
func clean(what, text string) (string, error) {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' || r == 0 }), " ")
	text = strings.TrimSpace(text)
	switch n := utf8.RuneCountInString(text); {
	case n == 0:
		return "", wrong(ErrText, "%s is empty; write in a few words what is to be done", what)
	case n > MaxText:
		return "", wrong(ErrText, "%s has %d characters, and at most %d are allowed; make it shorter, or make several steps of it", what, n, MaxText)
	}
	return text, nil
}
