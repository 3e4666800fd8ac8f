package limit

import (
	"errors"
	"time"

	"belljar.dev/policies"
)

// Enforcement says how a limit is enforced on this host.
type Enforcement string

// The enforcements, from the strongest down.
const (
	Enforced    Enforcement = "enforced" // by the kernel, over the whole box
	Partly      Enforcement = "partly"   // by the kernel, but not for every way to use the resource
	Watchdog    Enforcement = "watchdog" // sampled by belljar; short peaks may pass
	NotEnforced Enforcement = "none"     // this host cannot enforce it
)

// Enforcements says how each limit of a box is enforced, by the limit's name.
type Enforcements map[policies.Limit]Enforcement

// Usage is what a command used. CPU is that of the main process and the children
// that it waited for. PeakMemory is the largest resident set among them in bytes,
// or that of all processes of the command if the host counts it.
type Usage struct {
	CPU        time.Duration
	PeakMemory int64
}

// ErrTooMany is returned immediately if a limit on boxes, commands or background jobs is
// reached. Callers test for it with errors.Is.
var ErrTooMany = errors.New("too many")

// Refusal is an error of the sandbox itself: the command did not run, or not
// all of it. Message is for the agent and says what to do; Err is the cause.
type Refusal struct {
	Message string
	Ran     bool // whether any part of the command ran
	Err     error
}

// Error returns the message, followed by the cause.
func (r *Refusal) Error() string {
	if r.Err == nil {
		return r.Message
	}
	return r.Message + ": " + r.Err.Error()
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }
