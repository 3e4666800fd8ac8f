package upstream

import (
	"fmt"
	"strings"
	"time"

	"belljar.dev/internal/printable"
)

// Status is the status of an instance. A server without an instance has a status with the
// state off.
type Status struct {
	Key
	State State
	Since time.Time // time when the state began; zero if nothing has happened
	// reason of the latest failure or of the hold, as one short line without control
	// characters; empty if the server is ready
	Reason  string
	Step    string    // step of a start: the installation, the start of the program or the handshake; empty before these
	Attempt int       // number of starts in ten minutes, including the latest
	Until   time.Time // in Waiting: time of the next start
	Stderr  []string  // last lines of the latest process, in a form that may be shown
	Calls   int       // number of running calls
	// NeedsLogin is set if the reason is that a person must log in.
	NeedsLogin bool
}

// Log contains the latest process's output on standard error.
type Log struct {
	Key
	State State
	Lines []string // last lines, in a form that may be shown
}

// shownStderr is how many lines of stderr a status contains.
const shownStderr = 5

// Bounds of foreign texts in a message, in characters.
const (
	maxReason = 500
	maxLine   = 300
)

// Unavailable is the error for a call of a known server that cannot accept the call.
type Unavailable struct {
	Status

	In time.Duration // in Waiting: time until the next start
	// Ran reports that the call had reached the server, which may have acted on it.
	Ran bool
	// StderrLeftOut reports that Stderr is left out: principals share the instance, and a
	// line may be about the call of another principal.
	StderrLeftOut bool
}

// Error returns a text for the agent: what is wrong with the server, whether anything was
// called, and what to do.
func (u *Unavailable) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "The server %s cannot be used now: %s.", Line(u.Server), u.is())
	if u.Ran {
		b.WriteString(" The call had reached the server, and may have had an effect.")
	} else {
		b.WriteString(" Nothing was called.")
	}
	if u.Reason != "" {
		fmt.Fprintf(&b, "\nWhy: %s", printable.Line(u.Reason, maxReason))
	}
	if u.StderrLeftOut {
		fmt.Fprintf(&b, "\nThe server's lines on stderr are left out, because other users share this server. The person you work for sees them with: belljar upstream logs %s", printable.Operand(u.Server))
	} else if len(u.Stderr) > 0 {
		b.WriteString("\nThe last lines that the server wrote to stderr:")
		for _, s := range u.Stderr {
			fmt.Fprintf(&b, "\n  %s", Line(s))
		}
	}
	fmt.Fprintf(&b, "\n%s", u.advice())
	return b.String()
}

// is returns a text about the state of the server.
func (u *Unavailable) is() string {
	switch u.State {
	case Held:
		return "it is held until a person has decided about it"
	case Starting:
		step := ""
		if u.Step != "" {
			step = ", step: " + u.Step
		}
		return fmt.Sprintf("it is starting: attempt %d of %d%s", u.Attempt, maxStarts, step)
	case Waiting:
		return fmt.Sprintf("it failed, and will be started again in %v (attempt %d of %d)", u.In, u.Attempt+1, maxStarts)
	case Failed:
		return fmt.Sprintf("it failed after %d starts in a row, and will not be started again automatically", u.Attempt)
	case Draining:
		return "it is being stopped"
	case Ready, Off:
	}
	return "it has stopped"
}

// advice returns what an agent can do.
func (u *Unavailable) advice() string {
	switch u.State {
	case Held:
		return "Tell the person you work for; belljar upstream list shows what waits for a decision. Continue without its tools."
	case Failed:
		return fmt.Sprintf("Tell the person you work for: belljar upstream restart %s starts it again. Continue without its tools.", printable.Operand(u.Server))
	case Waiting:
		return "Retry after that time, or continue without its tools."
	case Starting, Ready, Draining, Off:
	}
	return "Retry, or continue without its tools."
}

// Line returns a foreign text in the form for messages: one line, cut, and without effects
// on a terminal.
func Line(s string) string { return printable.Line(s, maxLine) }
