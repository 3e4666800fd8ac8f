package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"belljar.dev/internal/job"
	"belljar.dev/mcp"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/limit"
)

const (
	// newsEvery is the shortest time between two notifications about new output of a job.
	newsEvery = time.Second
	// spoolPiece is how many bytes of output are written to the state in one piece.
	spoolPiece = 64 << 10
	// liveMost is how many jobs a shell keeps in memory; of other jobs only the records are
	// known. A box keeps 64 jobs that have ended.
	liveMost = 128
	// idsShown is how many tasks the error for an unknown id names.
	idsShown = 20
)

// running is a job that this process runs, or has run in a box that still exists.
type running struct {
	kept job.Job // record of the job at its start
	cmd  *sandbox.Job
	box  string        // id of the box
	over chan struct{} // closed when the job's end is on the disk
	last job.Job       // record of the job at its end; to be read only after over is closed

	byOperator atomic.Bool // the operator requested the end of the job
}

// keepWait bounds the time for writing a record.
const keepWait = 10 * time.Second

// record returns the record of a running command.
func record(tool string, cmd *sandbox.Job, description string) job.Job {
	return job.Job{Tool: tool, Command: cmd.Command(), Description: description, Output: cmd.Output().ID(), Started: cmd.Started()}
}

// watch follows a recorded job to its end. A job whose box is being closed is recorded as
// lost.
func (sh *shell) watch(ctx context.Context, session *mcp.Session, kept job.Job, cmd *sandbox.Job) (*running, error) {
	r := &running{kept: kept, cmd: cmd, box: sh.id, over: make(chan struct{})}
	sh.mu.Lock()
	if sh.ended || sh.box == nil { // end may have finished its wait for the jobs
		sh.mu.Unlock()
		err := fmt.Errorf("start task %d: its box %w", kept.ID, sandbox.ErrClosed)
		return nil, errors.Join(err, sh.backends.Jobs.End(ctx, kept, job.Lost, job.End{}, 0))
	}
	defer sh.mu.Unlock()
	if sh.jobs == nil {
		sh.jobs = make(map[int64]*running)
	}
	sh.jobs[kept.ID] = r
	for id, o := range sh.jobs {
		if len(sh.jobs) > liveMost && id != kept.ID && o.ended() {
			delete(sh.jobs, id)
		}
	}
	box := sh.box
	sh.watched.Go(func() { sh.see(context.WithoutCancel(ctx), session, r, box) })
	return r, nil
}

// ended reports whether the job's end is on the disk.
func (r *running) ended() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

// see spools what a job writes, notifies clients of it, and records its end.
func (sh *shell) see(ctx context.Context, session *mcp.Session, r *running, box *sandbox.Box) {
	spool, err := sh.backends.Jobs.Spool(r.kept)
	if err != nil {
		sh.backends.Log.Warn("the output of a background task is not kept", "task", r.kept.ID, "err", err)
	}
	out := r.cmd.Output()
	var at int64
	var told time.Time
	news := false
	for over := false; !over; {
		text, next, lost, err := out.Read(at, spoolPiece)
		if err != nil { // the box was closed before all output was read
			sh.backends.Log.Warn("the last output of a background task is not kept", "task", r.kept.ID, "bytes", out.Size()-at, "err", err)
			<-r.cmd.Done()
			break
		}
		if spool != nil {
			if err = spool.Skip(lost); err == nil {
				_, err = spool.Write(text)
			}
			if err != nil {
				sh.backends.Log.Error("the output of a background task is not kept any more", "task", r.kept.ID, "err", err)
				_ = spool.Close()
				spool = nil
			}
		}
		news = news || next > at
		at = next
		if news && time.Since(told) >= newsEvery {
			tellNews(session, r)
			news, told = false, time.Now()
		}
		if len(text) == 0 {
			over = waitNews(ctx, r.cmd, at, news, newsEvery-time.Since(told))
		}
	}
	result := outcome(r.cmd)
	if spool != nil {
		if err := spool.Close(); err != nil {
			sh.backends.Log.Error("the output of a background task may not be kept", "task", r.kept.ID, "err", err)
		}
	}
	sh.over(ctx, session, r, result, box, at)
}

// waitNews waits until a command has written beyond an offset, until a notification is due,
// or until the command has ended. over reports whether the command has ended.
func waitNews(ctx context.Context, cmd *sandbox.Job, at int64, news bool, due time.Duration) (over bool) {
	if news {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, due)
		defer cancel()
	}
	if cmd.Output().Wait(ctx, at) != nil || cmd.Output().Size() > at {
		return false
	}
	<-cmd.Done() // the output has ended, and the command is about to end
	return true
}

// over records the end of a job; size is how many bytes of its output were read. It is
// called for each job of this process.
func (sh *shell) over(ctx context.Context, session *mcp.Session, r *running, result sandbox.Result, box *sandbox.Box, size int64) {
	status := job.Status(result.Status.String())
	if result.Status == sandbox.Killed && closed(session.Done(), box.Broken()) {
		status = job.Lost // the job was not killed on purpose
	}
	end := job.End{
		Code: &result.Code, Signal: signalName(result.Signal), Wall: result.Wall, CPU: result.Usage.CPU,
		PeakMemory: result.Usage.PeakMemory, Reverted: reverted(result.Reverted), Blocked: refused(result),
	}
	if status == job.Lost {
		end.Code, end.Signal = nil, ""
	} else if r.byOperator.Load() && result.Status == sandbox.Killed {
		end.By = theOperator
	}
	ctx, cancel := context.WithTimeout(ctx, keepWait)
	defer cancel()
	r.last = r.kept
	r.last.Status, r.last.End, r.last.Size, r.last.Ended = status, end, size, r.kept.Started.Add(result.Wall)
	if err := sh.backends.Jobs.End(ctx, r.kept, status, end, r.last.Size); err != nil {
		sh.backends.Log.Error("the end of a background task is not recorded", "task", r.kept.ID, "err", err)
	}
	close(r.over)
	tellNews(session, r)
	session.TaskChanged(r.kept.Handle)
}

// closed reports whether one of the channels is closed.
func closed(any ...<-chan struct{}) bool {
	for _, c := range any {
		select {
		case <-c:
			return true
		default:
		}
	}
	return false
}

// tellNews notifies the clients that have subscribed to a job or its output.
func tellNews(session *mcp.Session, r *running) {
	session.Updated(jobURI(r.kept.ID))
	session.Updated(outputURI(r.kept.Output))
}

// task is a job as a session sees it: a job that runs, a job that has run in a box that is
// still open, or only the record of a job.
type task struct {
	job.Job
	live *running // nil if only the record is known
}

// jobs returns the jobs that a session sees, oldest first, and the count of older ones.
func (s *shells) jobs(ctx context.Context, session *mcp.Session) ([]task, job.Forgotten, error) {
	if s.backends.Jobs == nil {
		return nil, job.Forgotten{}, nil
	}
	all, gone, err := s.backends.Jobs.List(ctx, owner(session))
	tasks := make([]task, 0, len(all))
	for _, j := range all {
		tasks = append(tasks, task{j, s.live(session, j)})
	}
	return tasks, gone, err
}

// find returns a job that a session sees. If the job is unknown, it returns a result that
// names the session's jobs.
func (s *shells) find(ctx context.Context, session *mcp.Session, id int64) (t task, unknown *mcp.Result, err error) {
	all, gone, err := s.jobs(ctx, session)
	if err != nil {
		return task{}, nil, err
	}
	var ids []string
	for _, t := range all {
		if t.ID == id {
			return t, nil, nil
		}
		ids = append(ids, strconv.FormatInt(t.ID, 10))
	}
	if len(ids) == 0 {
		return task{}, mcp.Failed("task_id: task %d does not exist: no background task was started in this session. BackgroundBash starts one.%s", id, forgotten(gone)), nil
	}
	which := "The tasks"
	if n := len(ids); n > idsShown {
		ids = ids[n-idsShown:]
		which = fmt.Sprintf("ListBgTasks shows all %d tasks; the last", n)
	}
	return task{}, mcp.Failed("task_id: task %d does not exist. %s of this session are: %s.%s", id, which, strings.Join(ids, ", "), forgotten(gone)), nil
}

// forgotten returns a sentence about jobs whose records were removed.
func forgotten(gone job.Forgotten) string {
	if gone.Jobs == 0 {
		return ""
	}
	return fmt.Sprintf(" %d older tasks are no longer kept: tasks that have ended are kept for %d days, at most %d of them, with at most %d MiB of output together.",
		gone.Jobs, job.MaxAge/(24*time.Hour), job.MaxEnded, job.MaxBytes>>20)
}

// live returns the running of a session's job, or nil if only its record is known.
func (s *shells) live(session *mcp.Session, j job.Job) *running {
	for _, sh := range s.all(session) {
		sh.mu.Lock()
		r := sh.jobs[j.ID]
		sh.mu.Unlock()
		if r != nil && r.kept.Handle == j.Handle {
			return r
		}
	}
	return nil
}

// look returns the present state of a job. The output must be read after look: if the job
// had ended, the output is then complete.
func (t task) look() state {
	now := t.Job
	if t.live != nil {
		if !t.live.ended() {
			return state{
				status: job.Running, runtime: time.Since(now.Started), usage: t.live.cmd.Usage(),
				reverted: reverted(t.live.cmd.Reverted()),
			}
		}
		now = t.live.last
	}
	if now.Status == job.Running { // the job runs in another process
		return state{status: job.Running, runtime: time.Since(now.Started)}
	}
	return state{
		status: now.Status, ended: true, code: now.End.Code, signal: now.End.Signal, runtime: now.End.Wall,
		usage:    limit.Usage{CPU: now.End.CPU, PeakMemory: now.End.PeakMemory},
		reverted: now.End.Reverted, blocked: now.End.Blocked, by: now.End.By,
	}
}

// starts returns the programs that the job has started, if this process knows them.
func (t task) starts() starts {
	if t.live == nil {
		return starts{}
	}
	return startsOf(t.live.cmd)
}

// size returns how many bytes the job has written.
func (t task) size() int64 {
	if t.live != nil {
		return t.live.cmd.Output().Size()
	}
	return t.Size
}

// output returns the output of a job. The caller calls done.
func (s *shells) output(t task) (from source, done func(), err error) {
	if t.live != nil {
		out := t.live.cmd.Output()
		if _, _, _, err := out.Read(0, 0); err == nil {
			return out, func() {}, nil
		}
	}
	kept, err := s.backends.Jobs.Output(t.Job)
	if errors.Is(err, fs.ErrNotExist) {
		return noOutput{}, func() {}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return kept, func() { _ = kept.Close() }, nil
}

// noOutput is the output of a job whose output was not recorded.
type noOutput struct{}

// Size returns zero.
func (noOutput) Size() int64 { return 0 }

// Read returns no bytes.
func (noOutput) Read(offset int64, _ int) ([]byte, int64, int64, error) { return nil, offset, 0, nil }
