package act

import (
	"errors"
	"fmt"
)

// Reason is why a look or a step was refused or failed.
type Reason string

// The reasons.
const (
	ReasonArgument Reason = "argument"  // the request cannot be
	ReasonUnknown  Reason = "unknown"   // no such tab, reference, download or dialog
	ReasonStale    Reason = "stale"     // the reference is not what it was
	ReasonNotReady Reason = "not_ready" // covered, disabled, out of sight, moving
	ReasonChanged  Reason = "changed"   // the facts are not those that were prepared
	ReasonPolicy   Reason = "policy"    // the caller's Judge, or a seat's options
	ReasonSecret   Reason = "secret"    // a condition for typing a secret does not hold
	ReasonDialog   Reason = "dialog"    // a dialog waits for an answer
	ReasonLimit    Reason = "limit"     // a bound was reached
	ReasonFailed   Reason = "failed"    // the page or the server did not do it
	ReasonTimeout  Reason = "timeout"   // the page did not answer in time
	ReasonCrashed  Reason = "crashed"   // the page or its Chrome died
	ReasonAbsent   Reason = "absent"    // no Chrome runs on this host
	ReasonFull     Reason = "full"      // no seat is free
	ReasonClosed   Reason = "closed"    // the seat is closed
	ReasonHeld     Reason = "held"      // a person has stopped the acts of the seat
)

// Refusal is why nothing, or not all, was done. Every error of this package's
// exported functions is one.
type Refusal struct {
	Reason Reason
	// Message says what was wrong, for the agent. It contains nothing of a page but
	// cleaned and quoted words.
	Message string
	// Next is the one thing to do instead, as an imperative.
	Next string
	// Ran reports whether input may have reached the page.
	Ran bool
	// Err is the cause, for the operator's log; may be nil.
	Err error
}

// Error is the text for the agent: what was wrong, whether anything was done, and
// the next step.
func (r *Refusal) Error() string {
	done := "nothing was done"
	if r.Ran {
		done = "the step may have taken effect"
	}
	return fmt.Sprintf("%s; %s; %s", r.Message, done, r.Next)
}

// Unwrap is the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// ReasonOf is the reason of an error of this package, and ReasonFailed for any other.
func ReasonOf(err error) Reason {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Reason
	}
	return ReasonFailed
}
