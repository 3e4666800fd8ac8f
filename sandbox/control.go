package sandbox

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/protect"
)

// Wait waits for the end of the job and returns the Result. If ctx ends first, it
// returns the cause of that, and the job continues.
func (j *Job) Wait(ctx context.Context) (Result, error) {
	select {
	case <-j.done:
		return j.result, nil
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
}

// Kill ends the job and waits until all its processes have ended. With a grace
// period its process group gets SIGTERM first. Kill does not change the Result of
// a job that has ended.
func (j *Job) Kill(grace time.Duration) Result { return j.end(Killed, grace) }

// TimeOut ends the job immediately, with the status TimedOut.
func (j *Job) TimeOut() Result { return j.end(TimedOut, 0) }

func (j *Job) end(status Status, grace time.Duration) Result {
	j.stopWith(stopRequest{status, grace})
	<-j.done
	return j.result
}

// Signal sends a signal to the process group of the job's main process.
func (j *Job) Signal(sig syscall.Signal) error {
	if j.Status() != Running {
		return fmt.Errorf("signal command: %w", os.ErrProcessDone)
	}
	return j.box.init.send(&boxinit.Request{Op: boxinit.OpSignal, ID: j.wire, Signal: sig})
}

// Promote turns a foreground command into a background job, which may run for
// timeout from its start. The error wraps limit.ErrTooMany if the box has too many jobs.
func (j *Job) Promote(timeout time.Duration) error {
	if most := j.grant.Limits().Background; timeout <= 0 || timeout > most {
		return &limit.Refusal{Message: fmt.Sprintf("a background task may run for up to %s in profile %q, not %s", most, j.grant.Profile(), timeout), Ran: true}
	}
	b := j.box
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	if b.table.running[j.wire] == nil {
		return fmt.Errorf("promote command: %w", os.ErrProcessDone)
	}
	if j.ID() != 0 {
		return fmt.Errorf("promote command: it is background task %d already", j.ID())
	}
	if err := b.table.roomForJob(j.grant); err != nil {
		return err
	}
	j.extend <- timeout // does not block: a job is promoted at most once
	j.mu.Lock()
	defer j.mu.Unlock()
	b.table.list(j)
	return nil
}

// Resize gives the command's terminal another size. It does nothing for a job
// without a terminal.
func (j *Job) Resize(size Size) error {
	if j.streams.terminal == nil || j.Status() != Running {
		return nil
	}
	conn, err := j.streams.terminal.SyscallConn()
	if err != nil {
		return fmt.Errorf("size terminal: %w", err)
	}
	var sizeErr error
	if err := conn.Control(func(fd uintptr) { sizeErr = setSize(int(fd), size) }); err != nil {
		return fmt.Errorf("size terminal: %w", err)
	}
	return sizeErr
}

// Reverted returns the changes of protected paths that were reverted so far while the job
// ran: see Result.Reverted.
func (j *Job) Reverted() []protect.Reverted {
	if j.Status() != Running {
		return j.result.Reverted
	}
	if w := j.watched.Load(); w != nil {
		return w.Reverted()
	}
	return nil
}

// Usage returns what the job used; it is zero until the job has ended.
func (j *Job) Usage() limit.Usage {
	if j.Status() != Running {
		return j.result.Usage
	}
	return limit.Usage{}
}
