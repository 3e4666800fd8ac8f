package sandbox

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
)

// Status says whether a command runs, or how it ended. It follows from what the
// supervisor did and what the kernel counted, and is never guessed from a signal.
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
	Code   int            // exit code; 128+Signal if a signal ended it, like in a shell
	Signal syscall.Signal // zero unless a signal ended the main process
	Wall   time.Duration
	Usage  Usage
	Dir    string // working directory at the end; empty if it is not known
	Output *Output
	// Reverted lists the changes of the workspace's protected paths that this
	// command, or one that ran at the same time, made, and what was done about
	// them. If other commands of the box were running when this one began, the
	// list starts with earlier changes that no result of the box has reported.
	Reverted []Reverted
	// Blocked lists what the egress door refused while the command ran, to it or
	// to one that ran at the same time. It keeps the newest refusals
	// (egress.Door.Blocked).
	Blocked []egress.Record
	// Execs are the programs that the command started, if the profile has exec:
	// observe or enforce, without those that Job.Execs returned before. Without
	// cgroups they may belong to a command that ran at the same time.
	Execs Execs
}

// Usage is what a command used. CPU is that of the main process and the children
// that it waited for. PeakMemory is the largest resident set among them in bytes,
// or that of all processes of the command if the host counts it.
type Usage struct {
	CPU        time.Duration
	PeakMemory int64
}

// Enforcement says how a limit is enforced on this host.
type Enforcement string

// The enforcements, from the strongest down.
const (
	Enforced Enforcement = "enforced" // by the kernel, over the whole box
	Partly   Enforcement = "partly"   // by the kernel, but not for every way to use the resource
	Watchdog Enforcement = "watchdog" // sampled by belljar; short peaks may pass
	NotHeld  Enforcement = "none"     // this host cannot enforce it
)

// Limits says how each limit of a box is enforced, by its name.
type Limits map[policies.Limit]Enforcement

// Errors that callers may test for with errors.Is.
var (
	// ErrClosed is returned by every method of a Supervisor, Box or Job once
	// it, or what owns it, is closed.
	ErrClosed = errors.New("closed")
	// ErrWider is returned if a call's grant asks for more than the grant that
	// the box was opened with.
	ErrWider = errors.New("the grant asks for more than the box was opened with")
	// ErrTooMany is returned at once if a limit on boxes, commands or background
	// jobs is reached.
	ErrTooMany = errors.New("too many")
)

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
