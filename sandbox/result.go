package sandbox

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
)

// Status says how a command stands or how it ended. It is taken from what the
// supervisor did and what the kernel counted, never guessed from a signal.
type Status int

// The statuses. Every value but Running is final.
const (
	Running  Status = iota
	Exited          // ended by itself; Code or Signal say how
	Killed          // ended because its caller asked (cancel, KillBgTask, Close)
	TimedOut        // ended because its time was up
	OOM             // ended because the box's memory limit was reached
)

// String is the status as it is spelt on the wire.
func (s Status) String() string {
	switch s {
	case Running:
		return "running"
	case Exited:
		return "exited"
	case Killed:
		return "killed"
	case TimedOut:
		return "timed_out"
	case OOM:
		return "oom"
	}
	return fmt.Sprintf("status(%d)", int(s))
}

// Result is how a command ended. A failing program is a Result, not an error.
type Result struct {
	Status Status
	Code   int            // exit code; 128+Signal where a signal ended it, as in a shell
	Signal syscall.Signal // zero unless a signal ended the main process
	Wall   time.Duration
	Usage  Usage
	Dir    string // working directory at the end; empty where it is not known
	Output *Output
	// Reverted is what the command, or one that ran beside it, changed of the
	// workspace's protected paths, and what was done about it. A command that ran
	// beside others of its box tells what its box was not told before.
	Reverted []Reverted
	// Blocked is what the egress door refused while the command ran, to it or
	// to one that ran beside it: the newest, if it was much (egress.Door.Blocked).
	Blocked []egress.Record
	// Execs are the programs that it started, where the profile has them seen, but
	// for those that Job.Execs told before.
	// Where no cgroup tells, they may be of one that ran beside it.
	Execs Execs
}

// Usage is what a command was seen to use. CPU covers the main process and
// the children it waited for; PeakMemory is the largest resident set among
// them in bytes, or of the whole leaf where the host counts that.
type Usage struct {
	CPU        time.Duration
	PeakMemory int64
}

// Enforcement says how a limit is held on this host.
type Enforcement string

// The enforcements, from the strongest down.
const (
	Enforced Enforcement = "enforced" // by the kernel, over the whole box
	Partly   Enforcement = "partly"   // by the kernel, but not every way to it
	Watchdog Enforcement = "watchdog" // sampled by belljar; short peaks may pass
	NotHeld  Enforcement = "none"     // this host cannot hold it
)

// Limits says how each limit of a box is held, by name.
type Limits map[policies.Limit]Enforcement

// Errors that callers may test for with errors.Is.
var (
	// ErrClosed is returned by every method of a Supervisor, Box or Job once
	// it, or what owns it, is closed.
	ErrClosed = errors.New("closed")
	// ErrWider is returned where a call's grant asks for more than the box it
	// would run in was opened with.
	ErrWider = errors.New("the grant asks for more than the box was opened with")
	// ErrTooMany is returned at once where a bound on boxes, commands or
	// background jobs is reached.
	ErrTooMany = errors.New("too many")
)

// Refusal is an error of the sandbox itself: the command did not run, or not
// all of it. Message is for the agent and says what to do; Err is the cause.
type Refusal struct {
	Message string
	Ran     bool // whether anything of the command ran
	Err     error
}

// Error is the message with the cause behind it.
func (r *Refusal) Error() string {
	if r.Err == nil {
		return r.Message
	}
	return r.Message + ": " + r.Err.Error()
}

// Unwrap is the cause.
func (r *Refusal) Unwrap() error { return r.Err }
