package callback

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"belljar.dev/internal/store"
)

// Bounds of callbacks.
const (
	Slots         = 8                // of one tenant in one workspace
	MaxMessage    = 2048             // characters
	MinDelay      = time.Second      // the shortest delay
	MaxDelay      = time.Hour        // the longest delay
	DefaultRepeat = 20               // times a callback fires that does not say
	MaxRepeat     = 1_000_000        // times
	Forever       = -1               // as Repeat: without an end
	MaxWait       = 10 * time.Minute // of Wait

	// maxPending bounds the deliveries of one tenant that nobody has received. At the
	// bound nothing fires, and nothing is lost: the callbacks stay due.
	maxPending = 64
	// keptTaken is how many received deliveries are kept.
	keptTaken = 32
)

// The errors of a call of a Book.
var (
	ErrFull  = fmt.Errorf("all callback slots full (max %d)", Slots)
	ErrTaken = errors.New("the slot is in use")
	ErrEmpty = errors.New("the slot is empty")
)

// Request is what a callback is to be.
type Request struct {
	Message string
	Delay   time.Duration
	Repeat  int  // times it fires; Forever, or 0 for DefaultRepeat
	Slot    *int // where to put it; nil for the first that is free
}

// check says what is wrong with a request, for the agent.
func (r *Request) check() error {
	if r.Repeat == 0 {
		r.Repeat = DefaultRepeat
	}
	n := utf8.RuneCountInString(r.Message)
	switch {
	case strings.TrimSpace(r.Message) == "":
		return errors.New("message: it is empty; say what you want to be told")
	case !utf8.ValidString(r.Message):
		return errors.New("message: it is not valid UTF-8")
	case n > MaxMessage:
		return fmt.Errorf("message: %d characters, at most %d are taken; put the rest into a file and name that", n, MaxMessage)
	case r.Delay < MinDelay || r.Delay > MaxDelay:
		return fmt.Errorf("delay_seconds: got %d, want %d to %d", r.Delay/time.Second, MinDelay/time.Second, MaxDelay/time.Second)
	case r.Repeat != Forever && (r.Repeat < 1 || r.Repeat > MaxRepeat):
		return fmt.Errorf("repeat_count: got %d, want 1 to %d, or %d for no end", r.Repeat, MaxRepeat, Forever)
	}
	return checkSlot(r.Slot)
}

func checkSlot(slot *int) error {
	if slot != nil && (*slot < 0 || *slot >= Slots) {
		return fmt.Errorf("callback_id: got %d, want a slot from 0 to %d", *slot, Slots-1)
	}
	return nil
}

// Callback is one that is armed. Its owner's session, which asked for it, gets the
// delivery first, while it is open.
type Callback struct {
	store.Owner
	ID      int64 // never used again
	Slot    int
	Message string
	Delay   time.Duration
	Left    int       // times it will fire; Forever
	Due     time.Time // when it fires next, if its tenant is idle
}

// Delivery is a callback that has fired.
type Delivery struct {
	store.Owner
	ID      int64
	Slot    int
	Message string
	Fired   time.Time // the last time
	Times   int       // how often it has fired since the last delivery was received
	Left    int       // times it will fire yet; Forever
	Told    time.Time // when the agent received it; zero before

	self string // the process that delivers it
}
