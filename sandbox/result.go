package sandbox

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"belljar.dev/sandbox/egress"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/protect"
)

// Status says whether a command runs, or how it ended. It follows from what the
// supervisor did and what the kernel counted, and is never guessed from a signal.
type Status int

// The statuses. Every value except Running is final.
const (
	Running  Status = iota
	Exited          // ended by itself; Code or Signal say how
	Killed          // ended because its caller asked (cancel, KillBgTask, Close)
	TimedOut        // ended because its time was up
	OOM             // ended because the box's memory limit was reached
)

// String returns the status as it is spelt on the wire.
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
	Usage  limit.Usage
	Dir    string // working directory at the end; empty if it is not known
	Output *Output
	// Reverted lists the changes of the workspace's protected paths that this
	// command, or one that ran at the same time, made, and what was done about
	// them. If other commands of the box were running when this one began, the
	// list starts with earlier changes that no result of the box has reported.
	Reverted []protect.Reverted
	// Blocked lists what the egress door refused while the command ran, to it or
	// to one that ran at the same time. It keeps the newest refusals
	// (egress.Door.Blocked).
	Blocked []egress.Record
	// Execs are the programs that the command started, if the profile has exec:
	// observe or enforce, without those that Job.Execs returned before. Without
	// cgroups they may belong to a command that ran at the same time.
	Execs Execs
}

// Errors that callers may test for with errors.Is.
var (
	// ErrClosed is returned by methods of a Supervisor, Box or Output that need it open,
	// once it, or what owns it, is closed. For a Job, the end of its box is the end of its
	// command.
	ErrClosed = errors.New("closed")
	// ErrWider is returned if a call's grant asks for more than the grant that
	// the box was opened with.
	ErrWider = errors.New("the grant asks for more than the box was opened with")
)
