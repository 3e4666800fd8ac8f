package sandbox

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/protect"
)

// Job is a command that was started. It ends when its main process ends, even if
// another process keeps its output open. Then all processes that it left are
// killed. Its methods are safe for concurrent use.
type Job struct {
	box     *Box
	wire    uint64 // number on the wire to the init; 0 until the table gives it one
	command string
	grant   policies.Grant
	started time.Time
	streams streams
	leaf    *cgroup.Leaf // its cgroup, or nil

	replies replies          // replies from initProc.hear; room for both replies of a job
	stop    chan stopRequest // request to end it; room for one
	extend  chan time.Duration
	watched atomic.Pointer[protect.Watch] // watch of the workspace's protector, or nil
	refused uint64                        // position in the door's refusals when the job began
	warming atomic.Pointer[time.Timer]    // timer that starts the next warm shell if the job runs for a while
	done    chan struct{}
	oom     atomic.Bool  // whether the watchdog killed it
	pid     atomic.Int64 // process id in the box, as the init reports it; 0 until the job runs

	execLog execLog // guarded by the mu of box.means.execs

	mu     sync.Mutex
	id     int64 // task_id; 0 for a foreground command; set with table.mu held too
	result Result
}

// replies are the init's replies about one command.
type replies chan boxinit.Reply

// put adds a reply, and reports whether there was room for it.
func (c replies) put(r boxinit.Reply) bool {
	select {
	case c <- r:
		return true
	default:
		return false
	}
}

// some reports whether a reply has arrived.
func (c replies) some() bool { return len(c) > 0 }

// stopRequest asks for the end of a job.
type stopRequest struct {
	status Status
	grace  time.Duration // time between SIGTERM and SIGKILL; 0 for SIGKILL immediately
}

func newJob(b *Box) *Job {
	return &Job{
		box:     b,
		replies: make(replies, 2), stop: make(chan stopRequest, 1), extend: make(chan time.Duration, 1),
		done: make(chan struct{}),
	}
}

// assign gives the job its command.
func (j *Job) assign(c *Cmd) {
	j.command = c.Shell
	if c.Shell == "" {
		j.command = strings.Join(c.Argv, " ")
	}
	j.grant, j.started, j.streams.record = c.Grant, time.Now(), c.Record
	j.streams.output = newOutput(c.Grant.Limits().Output, j.box.sup.reading.spool)
	_, j.refused = j.box.means.door.Blocked(math.MaxUint64)
}

// ID returns the number of a background job in its box, from 1, or 0 for a
// foreground command.
func (j *Job) ID() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.id
}

// Command returns the script or the arguments that the job was started with.
func (j *Job) Command() string { return j.command }

// Started returns the time at which the job was started.
func (j *Job) Started() time.Time { return j.started }

// Output returns what the job has written so far.
func (j *Job) Output() *Output { return j.streams.output }

// Done returns a channel that is closed when the job has ended and its output is
// complete.
func (j *Job) Done() <-chan struct{} { return j.done }

// Status returns whether the job runs, or how it ended.
func (j *Job) Status() Status {
	select {
	case <-j.done:
		return j.result.Status
	default:
		return Running
	}
}

func (j *Job) stopWith(r stopRequest) {
	select {
	case j.stop <- r:
	default: // another call has already asked for the end
	}
}
