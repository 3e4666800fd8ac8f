package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"belljar.dev/internal/job"
	"belljar.dev/mcp"
	"belljar.dev/sandbox"
)

// tasks are the tasks of the protocol: the jobs of the shell tools, and calls that continue
// without their clients, which are jobs too. The call may become a task before or after its
// command starts: it may become a task while its command runs, or wait for a person as a
// task and start its command then.
type tasks struct {
	shells *shells

	mu       sync.Mutex
	sessions map[string]struct{} // guarded by mu: ids of sessions that may have jobs
	started  map[string]*command // guarded by mu: commands of calls whose clients do not wait, by Call.Later
	calls    map[string]job.Job  // guarded by mu: tasks that such calls have become, by Call.Later
}

var _ mcp.Tasks = (*tasks)(nil)

func newTasks(s *shells) *tasks {
	return &tasks{shells: s, sessions: make(map[string]struct{}), started: make(map[string]*command), calls: make(map[string]job.Job)}
}

// keep makes a running command a job, and writes its record to the disk. If that fails,
// keep ends the command.
func (sh *shell) keep(ctx context.Context, call mcp.Call, cmd *sandbox.Job, description string) (*running, error) {
	if sh.backends.Jobs == nil {
		cmd.Kill(0)
		return nil, errors.New("this server does not keep background tasks; nothing is left running")
	}
	kept, err := sh.shells.tasks.begin(ctx, call.Session, record(call.Tool, cmd, description))
	if err == nil {
		return sh.watch(ctx, call.Session, kept, cmd)
	}
	cmd.Kill(0)
	if errors.Is(err, job.ErrMany) {
		return nil, fmt.Errorf("%w in this workspace; end one with KillBgTask, or wait; nothing is left running", err)
	}
	return nil, fmt.Errorf("note the background task: %w; nothing is left running", err)
}

// command is the command of a running call.
type command struct {
	sh          *shell
	session     *mcp.Session
	cmd         *sandbox.Job
	description string
	most        time.Duration // how long the command may run in total
	// guarded by tasks.mu: nil until the call is a task; then closed when task is set or
	// known to stay nil
	joined chan struct{}
	task   *running // nil if the command did not become a task
}

// begin writes the record of a session's new job.
func (s *tasks) begin(ctx context.Context, session *mcp.Session, j job.Job) (job.Job, error) {
	s.mu.Lock()
	s.sessions[session.ID()] = struct{}{}
	s.mu.Unlock()
	return s.shells.backends.Jobs.Open(ctx, owner(session), j)
}

// Open makes a call a task.
func (s *tasks) Open(ctx context.Context, c mcp.LaterCall) (mcp.Task, error) {
	kept, err := s.begin(ctx, c.Session, job.Job{Tool: c.Tool, Started: c.Started})
	if err != nil {
		return mcp.Task{}, err
	}
	s.mu.Lock()
	s.calls[c.Key] = kept
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
func (s *tasks) runs(ctx context.Context, call mcp.Call, c *command) {
	if call.Later == "" || s.shells.backends.Jobs == nil {
		return
	}
	s.mu.Lock()
	s.started[call.Later] = c
	kept, isTask := s.calls[call.Later]
	if isTask {
		c.joined = make(chan struct{})
	}
	s.mu.Unlock()
	if isTask {
		s.join(ctx, kept, c)
	}
}

// join makes a command part of the job that its call has become. If there is no room for
// another background job, the command stays in the foreground, with the limits there.
func (s *tasks) join(ctx context.Context, kept job.Job, c *command) {
	defer close(c.joined)
	_ = c.cmd.Promote(c.most)
	r := record(kept.Tool, c.cmd, c.description)
	kept.Command, kept.Description, kept.Output = r.Command, r.Description, r.Output
	kept, err := s.shells.backends.Jobs.Run(ctx, kept)
	if err != nil {
		s.shells.backends.Log.Error("the command of a task is not recorded", "task", kept.ID, "err", err)
		return
	}
	task, err := c.sh.watch(ctx, c.session, kept, c.cmd)
	if err != nil {
		return // the command's box is being closed, so the job is lost
	}
	c.task = task
}

// jobOf returns the job that a command and its call have become, or nil. If the call
// becomes a task later, that task does not include the command. jobOf decides which was
// first, so that no command has two records.
func (s *tasks) jobOf(call mcp.Call, c *command) *running {
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
func (s *tasks) Finish(ctx context.Context, c mcp.LaterCall, id, state string, answer json.RawMessage) error {
	s.mu.Lock()
	delete(s.calls, c.Key)
	s.mu.Unlock()
	return s.shells.backends.Jobs.Answer(ctx, id, state, answer)
}

// Get returns the state of a task.
func (s *tasks) Get(ctx context.Context, session *mcp.Session, id string) (mcp.Task, error) {
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
		out.Answer, err = s.shells.backends.Jobs.AnswerOf(ctx, t.Job)
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

// summary returns the result of a job that no call waits for. It does not contain the
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
func (s *tasks) Cancel(ctx context.Context, session *mcp.Session, id string) error {
	t, err := s.byHandle(ctx, session, id)
	if err != nil || t.Answered != "" || t.look().ended {
		return err
	}
	if t.live == nil {
		return errors.New("the task does not run in this server")
	}
	if err := s.shells.backends.Jobs.Answer(ctx, id, mcp.TaskCancelled, nil); err != nil {
		return err
	}
	t.live.cmd.Kill(0)
	<-t.live.over
	return nil
}

// Release makes the jobs of a session that has ended visible to its tenant.
func (s *tasks) Release(ctx context.Context, session *mcp.Session) {
	s.mu.Lock()
	_, has := s.sessions[session.ID()]
	delete(s.sessions, session.ID())
	for key, kept := range s.calls {
		if kept.Owner == owner(session) {
			delete(s.calls, key)
		}
	}
	s.mu.Unlock()
	if !has {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepWait)
	defer cancel()
	if err := s.shells.backends.Jobs.Release(ctx, owner(session)); err != nil {
		s.shells.backends.Log.Error("other sessions do not see the background tasks of an ended session before this server ends", "session", session.ID(), "err", err)
	}
}

func (s *tasks) byHandle(ctx context.Context, session *mcp.Session, id string) (task, error) {
	j, err := s.shells.backends.Jobs.ByHandle(ctx, owner(session), id)
	if errors.Is(err, job.ErrUnknown) {
		return task{}, mcp.ErrNotFound
	}
	return task{j, s.shells.live(session, j)}, err
}
