package upstream

import (
	"fmt"
	"strings"
	"time"

	"belljar.dev/internal/printable"
)

// Status is how an instance is. A server without an instance has one with the state off.
type Status struct {
	Key
	State   State
	Since   time.Time // when the state began; zero if nothing has happened
	Reason  string    // why it is not ready: of the latest failure, or of the hold; empty if it is ready; one short line without control characters
	Step    string    // of a start: the installation, the start of the program or the handshake; empty before these
	Attempt int       // starts in ten minutes, with the latest one
	Until   time.Time // of waiting: the next start
	Stderr  []string  // the last lines of the latest process, as they may be shown
	Calls   int       // that are running
	// NeedsLogin is set if the reason is that a person has to log in.
	NeedsLogin bool
}

// Log is what the latest process of an instance has written to standard error.
type Log struct {
	Key
	State State
	Lines []string // the last ones, as they may be shown
}

// shownStderr is how many lines of stderr a status has.
const shownStderr = 5

// Bounds of the texts of others in a message.
const (
	maxReason = 500 // characters
	maxLine   = 300
)

// Unavailable is the error for a call of a server that is known and cannot take the call.
type Unavailable struct {
	Status

	In time.Duration // of waiting: the time until the next start
	// Ran says that the call had reached the server, which may have done something.
	Ran bool
	// StderrLeftOut says that Stderr is left out: principals share the instance, and a line may
	// be about the call of another one.
	StderrLeftOut bool
}

// Error is the text for the agent: what is wrong with the server, whether anything was
// called, and what to do.
func (u *Unavailable) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "The server %s cannot be used now: %s.", Line(u.Server), u.is())
	if u.Ran {
		b.WriteString(" The call had reached it, and may have had an effect.")
	} else {
		b.WriteString(" Nothing was called.")
	}
	if u.Reason != "" {
		fmt.Fprintf(&b, "\nWhy: %s", printable.Line(u.Reason, maxReason))
	}
	if u.StderrLeftOut {
		fmt.Fprintf(&b, "\nIts lines of stderr are left out, because other users share this server. The person you work for sees them with: belljar upstream logs %s", printable.Operand(u.Server))
	} else if len(u.Stderr) > 0 {
		b.WriteString("\nThe last lines that it wrote to stderr:")
		for _, s := range u.Stderr {
			fmt.Fprintf(&b, "\n  %s", Line(s))
		}
	}
	fmt.Fprintf(&b, "\n%s", u.advice())
	return b.String()
}

// is says what the server is doing.
func (u *Unavailable) is() string {
	switch u.State {
	case Held:
		return "it is held until a person has decided about it"
	case Starting:
		step := ""
		if u.Step != "" {
			step = ", at " + u.Step
		}
		return fmt.Sprintf("it is starting: attempt %d of %d%s", u.Attempt, maxStarts, step)
	case Waiting:
		return fmt.Sprintf("it failed, and is started again in %v (attempt %d of %d)", u.In, u.Attempt+1, maxStarts)
	case Failed:
		return fmt.Sprintf("it failed after %d starts in a row, and is not started again by itself", u.Attempt)
	case Draining:
		return "it is being stopped"
	case Ready, Off:
	}
	return "it has stopped"
}

// advice says what an agent can do.
func (u *Unavailable) advice() string {
	switch u.State {
	case Held:
		return "Tell the person you work for; belljar upstream list shows what waits. Go on without its tools."
	case Failed:
		return fmt.Sprintf("Tell the person you work for: belljar upstream restart %s starts it again. Go on without its tools.", printable.Operand(u.Server))
	case Waiting:
		return "Retry after that time, or go on without its tools."
	case Starting, Ready, Draining, Off:
	}
	return "Retry, or go on without its tools."
}

// Line is a text of somebody else in the form in which messages have it: one line, cut, and
// without what acts on a terminal.
func Line(s string) string { return printable.Line(s, maxLine) }
