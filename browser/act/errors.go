package act

import (
	"errors"
	"fmt"
)

// Reason is why a look or a step was refused or failed.
type Reason string

// The reasons.
const (
	ReasonArgument Reason = "argument"  // the request is not valid
	ReasonUnknown  Reason = "unknown"   // no such tab, reference, download or dialog
	ReasonStale    Reason = "stale"     // the element of the reference has changed or is gone
	ReasonNotReady Reason = "not_ready" // the element is covered, disabled, out of sight or moving
	ReasonChanged  Reason = "changed"   // the facts differ from those that were prepared
	ReasonPolicy   Reason = "policy"    // the caller's Judge or the options of the seat do not allow it
	ReasonSecret   Reason = "secret"    // a condition for typing a secret does not hold
	ReasonDialog   Reason = "dialog"    // a dialog waits for an answer
	ReasonLimit    Reason = "limit"     // a bound was reached
	ReasonFailed   Reason = "failed"    // the page or the server did not do it
	ReasonTimeout  Reason = "timeout"   // the page did not answer in time, or the call was cancelled before
	ReasonCrashed  Reason = "crashed"   // the page or its Chrome died
	ReasonAbsent   Reason = "absent"    // no Chrome runs on this host
	ReasonFull     Reason = "full"      // no seat is free
	ReasonClosed   Reason = "closed"    // the seat is closed
	ReasonHeld     Reason = "held"      // a person has stopped the acts of the seat
)

// Refusal says why nothing, or not everything, was done. Every error of this package, except
// an error of New, is a Refusal.
type Refusal struct {
	Reason Reason
	// Message says what was wrong, for the agent. It contains no text of a page except
	// cleaned and quoted words.
	Message string
	// Next is the one thing to do instead, as an imperative.
	Next string
	// Ran reports whether input may have reached the page.
	Ran bool
	// Err is the cause, for the operator's log; it may be nil.
	Err error
}

// Error returns the text for the agent: what was wrong, whether anything was done, and the
// next step.
func (r *Refusal) Error() string {
	done := "nothing was done"
	if r.Ran {
		done = "the step may have taken effect"
	}
	return fmt.Sprintf("%s; %s; %s", r.Message, done, r.Next)
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// ReasonOf returns the reason of an error of this package, and ReasonFailed for any other
// error.
func ReasonOf(err error) Reason {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Reason
	}
	return ReasonFailed
}
