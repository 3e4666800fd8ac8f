package tools

import (
	"strconv"
	"time"

	"belljar.dev/internal/job"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/protect"
)

// state is the state of a job at one point in time.
type state struct {
	status  job.Status
	ended   bool
	code    *int // exit code; nil if it is not known
	signal  string
	runtime time.Duration
	usage   limit.Usage

	reverted []string // changes to protected paths that were taken back
	blocked  []string // sentences about refused uses of the network
	by       string   // person who ended the job; empty if its agent did
}

// is reports whether the job ended with a status.
func (s state) is(status sandbox.Status) bool { return string(s.status) == status.String() }

// tell adds what happened to the job and is not in its output: that it was lost or ended by
// a person, and the sandbox's own actions.
func (s state) tell(t *text) {
	if s.status == job.Lost {
		t.line("[lost: the task ended with its session, its box or its server]")
	}
	if s.by != "" {
		t.note(s.by + " ended this task, with all it had started")
	}
	for _, r := range s.reverted {
		t.note("sandbox: " + r)
	}
	for _, b := range s.blocked {
		t.note(b)
	}
}

// pairs returns the state in the form of pairs for a status line.
func (s state) pairs(id int64) []string {
	p := []string{"task_id", strconv.FormatInt(id, 10), "status", string(s.status)}
	if s.code != nil {
		p = append(p, "exit", strconv.Itoa(*s.code))
	}
	if s.signal != "" {
		p = append(p, "signal", s.signal)
	}
	return append(p, "duration_ms", strconv.FormatInt(s.runtime.Milliseconds(), 10))
}

// outcome returns the result of a command that is done.
func outcome(cmd *sandbox.Job) sandbox.Result {
	return cmd.Kill(0) // does nothing to a command that has ended
}

// reverted returns sentences about changes that were taken back.
func reverted(all []protect.Reverted) []string {
	var said []string
	for _, v := range all {
		said = append(said, v.String())
	}
	return said
}

// refused returns sentences about refused connections.
func refused(r sandbox.Result) []string {
	var said []string
	for _, b := range r.Blocked {
		said = append(said, b.Refusal())
	}
	return said
}
