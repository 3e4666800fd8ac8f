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
	Slots         = 8                // number of callbacks of one tenant in one workspace
	MaxMessage    = 2048             // length of a message in characters
	MinDelay      = time.Second      // shortest delay
	MaxDelay      = time.Hour        // longest delay
	DefaultRepeat = 20               // how often a callback fires if the request does not say it
	MaxRepeat     = 1_000_000        // largest number of repetitions
	Forever       = -1               // value of Repeat for a callback without an end
	MaxWait       = 10 * time.Minute // longest duration of Wait

	// maxPending bounds the deliveries of one tenant that have not been received. At the
	// bound no callback fires. Nothing is lost, because the callbacks stay due.
	maxPending = 64
	// keptTaken is the number of received deliveries of one tenant that are kept.
	keptTaken = 32
)

// Errors of the methods of a Book.
var (
	ErrFull  = fmt.Errorf("all callback slots full (max %d)", Slots)
	ErrTaken = errors.New("the slot is in use")
	ErrEmpty = errors.New("the slot is empty")
)

// Request describes the callback to set.
type Request struct {
	Message string
	Delay   time.Duration
	Repeat  int  // how often the callback fires; may be Forever, and 0 means DefaultRepeat
	Slot    *int // slot for the callback; nil means the first free slot
}

// check returns an error for the agent if the request is not valid.
func (r *Request) check() error {
	if r.Repeat == 0 {
		r.Repeat = DefaultRepeat
	}
	n := utf8.RuneCountInString(r.Message)
	switch {
	case strings.TrimSpace(r.Message) == "":
		return errors.New("message: it is empty; write the text that you want to receive")
	case !utf8.ValidString(r.Message):
		return errors.New("message: it is not valid UTF-8")
	case n > MaxMessage:
		return fmt.Errorf("message: %d characters, at most %d are accepted; put the rest into a file and name the file", n, MaxMessage)
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

// Callback is an armed callback. While the session that set it is open, only that session
// gets the delivery.
type Callback struct {
	store.Owner
	ID      int64 // id, which is never used again
	Slot    int
	Message string
	Delay   time.Duration
	Left    int       // how often the callback will still fire; may be Forever
	Due     time.Time // when the callback fires next, if its tenant is idle
}

// Delivery is a callback that has fired.
type Delivery struct {
	store.Owner
	ID      int64
	Slot    int
	Message string
	Fired   time.Time // when the callback last fired
	Times   int       // how often the callback has fired since the last delivery was received
	Left    int       // how often the callback will still fire; may be Forever
	Told    time.Time // when the agent received it; zero until then

	self string // process that delivers it
}
