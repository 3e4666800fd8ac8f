package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"belljar.dev/internal/job"
	"belljar.dev/mcp"
	"belljar.dev/sandbox"
)

// The tasks of the protocol are the jobs of the shell tools. Calls that go on without
// their clients are jobs too, and the shells keep both (mcp.Tasks). Either comes
// first: a call may become a task while its command runs, or wait for a person as a
// task and start its command then.

var _ mcp.Tasks = (*shells)(nil)

// command is the command of a call that runs.
type command struct {
	sh          *shell
	session     *mcp.Session
	cmd         *sandbox.Job
	description string
	most        time.Duration // that it may run in all
	joined      chan struct{} // guarded by shells.mu: nil until the call is a task; then closed once task is known
	task        *running      // nil if the command did not become a task
}

// Open makes a call a task.
func (s *shells) Open(ctx context.Context, c mcp.LaterCall) (mcp.Task, error) {
	kept, err := s.begin(ctx, c.Session, job.Job{Tool: c.Tool, Started: c.Started})
	if err != nil {
		return mcp.Task{}, err
	}
	s.mu.Lock()
	s.tasks[c.Key] = kept
	started := s.started[c.Key]
	if started != nil {
		started.joined = make(chan struct{})
	}
	s.mu.Unlock()
	if started != nil {
		s.join(ctx, kept, started)
	}
	return mcp.Task{ID: kept.Handle, State: mcp.TaskWorking, Created: kept.Started, Updated: kept.Started}, nil
}

// runs notes that a call runs a command, until jobOf.
func (s *shells) runs(ctx context.Context, call mcp.Call, c *command) {
	if call.Later == "" || s.backends.Jobs == nil {
		return
	}
	s.mu.Lock()
	s.started[call.Later] = c
	kept, isTask := s.tasks[call.Later]
	if isTask {
		c.joined = make(chan struct{})
	}
	s.mu.Unlock()
	if isTask {
		s.join(ctx, kept, c)
	}
}

// join makes a command part of the job that its call has become. If there is no room
// for another background job, the command stays in the foreground, whose limits apply.
func (s *shells) join(ctx context.Context, kept job.Job, c *command) {
	defer close(c.joined)
	_ = c.cmd.Promote(c.most)
	r := record(kept.Tool, c.cmd, c.description)
	kept.Command, kept.Description, kept.Output = r.Command, r.Description, r.Output
	kept, err := s.backends.Jobs.Run(ctx, kept)
	if err != nil {
		s.backends.Log.Error("the command of a task is not kept", "task", kept.ID, "err", err)
		return
	}
	task, err := c.sh.watch(ctx, c.session, kept, c.cmd)
	if err != nil {
		return // its box is being closed, and it is lost
	}
	c.task = task
}

// jobOf returns the job that a command and its call have become, or nil. If the call
// becomes a task after this, that task is without the command. Here is decided which of
// the two was first, so that no command has two records.
func (s *shells) jobOf(call mcp.Call, c *command) *running {
	s.mu.Lock()
	delete(s.started, call.Later)
	joined := c.joined
	s.mu.Unlock()
	if joined == nil {
		return nil
	}
	<-joined
	return c.task
}

// Finish records the answer of a task's call.
func (s *shells) Finish(ctx context.Context, c mcp.LaterCall, id, state string, answer json.RawMessage) error {
	s.mu.Lock()
	delete(s.tasks, c.Key)
	s.mu.Unlock()
	return s.backends.Jobs.Answer(ctx, id, state, answer)
}

// Get returns the state of a task.
func (s *shells) Get(ctx context.Context, session *mcp.Session, id string) (mcp.Task, error) {
	t, err := s.byHandle(ctx, session, id)
	if err != nil {
		return mcp.Task{}, err
	}
	now := t.look()
	out := mcp.Task{ID: t.Handle, State: mcp.TaskWorking, Created: t.Started, Updated: t.Started}
	if now.ended {
		out.Updated = t.Started.Add(now.runtime)
		if !t.Ended.IsZero() {
			out.Updated = t.Ended
		}
		out.Expires = out.Updated.Add(job.MaxAge)
	}
	switch {
	case t.Answered != "":
		out.State = t.Answered
		out.Answer, err = s.backends.Jobs.AnswerOf(ctx, t.Job)
	case !now.ended:
	case now.status == job.Lost && t.Command == "":
		out.State, out.Message = mcp.TaskFailed, fmt.Sprintf("the call of %s is lost: its session or its server ended while it ran; call again", t.Tool)
	case now.status == job.Lost:
		out.State, out.Message = mcp.TaskFailed, fmt.Sprintf("task %d is lost: its session, its box or its server ended while it ran; ReadBgOutput shows what it had written", t.ID)
	default:
		out.State, out.Result = mcp.TaskCompleted, t.summary(now)
	}
	return out, err
}

// summary is the result of a job that no call waits for. It does not contain the
// output, for which there are tools and resources.
func (t task) summary(now state) *mcp.Result {
	var words text
	words.line("Task %d has ended. ReadBgOutput shows what it wrote.", t.ID)
	return &mcp.Result{
		Content:    []mcp.Content{{Text: words.status(now.pairs(t.ID)...)}},
		Structured: t.entry(),
	}
}

// Cancel ends the command of a task that no call waits for.
func (s *shells) Cancel(ctx context.Context, session *mcp.Session, id string) error {
	t, err := s.byHandle(ctx, session, id)
	if err != nil || t.Answered != "" || t.look().ended {
		return err
	}
	if t.live == nil {
		return errors.New("it does not run in this server")
	}
	if err := s.backends.Jobs.Answer(ctx, id, mcp.TaskCancelled, nil); err != nil {
		return err
	}
	t.live.cmd.Kill(0)
	<-t.live.over
	return nil
}

// Release gives the jobs of a session that has ended to its tenant.
func (s *shells) Release(ctx context.Context, session *mcp.Session) {
	s.mu.Lock()
	_, has := s.sessions[session.ID()]
	delete(s.sessions, session.ID())
	for key, kept := range s.tasks {
		if kept.Owner == owner(session) {
			delete(s.tasks, key)
		}
	}
	s.mu.Unlock()
	if !has {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepWait)
	defer cancel()
	if err := s.backends.Jobs.Release(ctx, owner(session)); err != nil {
		s.backends.Log.Error("the background tasks of a session that is over are not seen by others before this server ends", "session", session.ID(), "err", err)
	}
}

func (s *shells) byHandle(ctx context.Context, session *mcp.Session, id string) (task, error) {
	j, err := s.backends.Jobs.ByHandle(ctx, owner(session), id)
	if errors.Is(err, job.ErrUnknown) {
		return task{}, mcp.ErrNotFound
	}
	return task{j, s.live(session, j)}, err
}
