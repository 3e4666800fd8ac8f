package todo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Status says how far a todo or a step is.
type Status string

// The statuses. A todo that is open and current in a session is InProgress
// there; of the steps of a todo at most one is.
const (
	Pending    Status = "pending"
	InProgress Status = "in_progress"
	Completed  Status = "completed"
	Blocked    Status = "blocked"
	Cancelled  Status = "cancelled"
)

// Statuses are all of them, by the names that agents use.
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
	Current bool // in the session that asks
}

// Left is how many steps are open.
func (t *Todo) Left() int {
	n := 0
	for _, s := range t.Steps {
		if s.Status.Open() {
			n++
		}
	}
	return n
}

// Bounds of what is kept.
const (
	MaxTodos    = 500  // of one tenant in one workspace; the oldest that are over make room
	MaxSteps    = 200  // of one todo
	MaxText     = 2000 // characters of a name or a step
	maxSessions = 200  // of one tenant in one workspace whose current todo is remembered
)

// The errors of a request that is wrong. Errors wrap them, and their text is for
// the agent.
var (
	ErrUnknown = errors.New("unknown id")
	ErrText    = errors.New("unusable text")
	ErrStatus  = errors.New("impossible status")
	ErrFull    = errors.New("no room")
)

// Told reports whether the text of an error is for the agent: it asked for
// something that cannot be. Other errors are of the store.
func Told(err error) bool {
	return slices.ContainsFunc([]error{ErrUnknown, ErrText, ErrStatus, ErrFull}, func(e error) bool { return errors.Is(err, e) })
}

// fault is an error with a text of its own, that is one of the sentinels.
type fault struct {
	kind error
	text string
}

func (f *fault) Error() string { return f.text }
func (f *fault) Unwrap() error { return f.kind }

func wrong(kind error, format string, args ...any) error {
	return &fault{kind, fmt.Sprintf(format, args...)}
}

// clean is a text as it is kept, in one line, or why it cannot be.
func clean(what, text string) (string, error) {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' || r == 0 }), " ")
	text = strings.TrimSpace(text)
	switch n := utf8.RuneCountInString(text); {
	case n == 0:
		return "", wrong(ErrText, "%s is empty; say in a few words what is to be done", what)
	case n > MaxText:
		return "", wrong(ErrText, "%s has %d characters, and %d are kept; make it shorter, or several steps", what, n, MaxText)
	}
	return text, nil
}
