package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/initconn"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/protect"
	"belljar.dev/sandbox/rawsys"
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

	replies replies          // from initProc.hear; room for both replies of a job
	stop    chan stopRequest // how to end it; room for one
	extend  chan time.Duration
	watched atomic.Pointer[protect.Watch] // by the workspace's protector, or nil
	refused uint64                        // position in the door's refusals when the job began
	warming atomic.Pointer[time.Timer]    // starts the next warm shell if the job runs for a while
	done    chan struct{}
	oom     atomic.Bool  // the watchdog killed it
	pid     atomic.Int64 // in the box, as the init reports; 0 until it runs

	execLog execLog // guarded by the mu of box.means.execs

	mu     sync.Mutex
	id     int64 // task_id; 0 for a foreground command; set with table.mu held too
	result Result
}

// replies are those of the init about one command.
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

// some reports whether a reply is there.
func (c replies) some() bool { return len(c) > 0 }

// stopRequest asks for the end of a job.
type stopRequest struct {
	status Status
	grace  time.Duration // time between SIGTERM and SIGKILL; 0 for SIGKILL at once
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

// TimeOut ends the job at once, with the status TimedOut.
func (j *Job) TimeOut() Result { return j.end(TimedOut, 0) }

func (j *Job) end(status Status, grace time.Duration) Result {
	j.stopWith(stopRequest{status, grace})
	<-j.done
	return j.result
}

func (j *Job) stopWith(r stopRequest) {
	select {
	case j.stop <- r:
	default: // another call has asked already
	}
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
	j.extend <- timeout // there is room: it is promoted once
	j.mu.Lock()
	defer j.mu.Unlock()
	b.table.list(j)
	return nil
}

// launch makes the pipes and the leaf, asks the init to start the command, and
// waits until it runs. Then watch owns the job, unless it has already ended.
func (j *Job) launch(c *Cmd) error {
	if err := j.guard(); err != nil {
		j.abandon()
		return err
	}
	files, err := j.streams.connect(j.box, c)
	if err != nil {
		boxinit.CloseAll(files)
		j.abandon()
		return err
	}
	r, err := j.request(c, c.request(j.box, j.wire), files)
	if err != nil {
		j.abandon()
		return err
	}
	if r.Op == boxinit.OpRan {
		r.Op = boxinit.OpEnded
		if c.streams() {
			j.replies <- r // for watch; there is room, because no reply came before
		} else {
			j.conclude(Exited, r, true)
			j.box.table.wg.Done() // table.enter added it
			return nil
		}
	}
	j.follow(c)
	return nil
}

// request asks the init to start a process with the given descriptors in a leaf of
// its own, and waits until the init reports that the process runs, or has run. It
// closes the descriptors.
func (j *Job) request(c *Cmd, req *boxinit.Request, files []int) (r boxinit.Reply, err error) {
	if err := j.tell(c, req, files); err != nil {
		return r, err
	}
	return j.begun(c, req)
}

// tell sends the request. It closes the descriptors before the answer arrives,
// while the command starts.
func (j *Job) tell(c *Cmd, req *boxinit.Request, files []int) (err error) {
	defer rawsys.Close(files...)
	if j.leaf, err = j.box.table.takeLeaf(j.box.means.group); err != nil {
		return err
	}
	given := slices.Clip(files)
	if c.Terminal != nil {
		given = []int{files[0], files[0], files[0]} // one descriptor serves all three
	}
	if j.leaf != nil {
		req.Flags |= boxinit.FlagLeaf
		given = append(given, j.leaf.FD())
	}
	j.box.init.ask(j)
	if err := j.box.init.send(req, given...); err != nil {
		j.box.init.answered(j)
		return err
	}
	return nil
}

// guard makes the workspace's protector watch the command. It is called before the
// command runs.
func (j *Job) guard() error {
	if j.box.means.guard == nil {
		return nil
	}
	lost := func(err error) { j.box.life.fail(err.Error()) }
	w, err := j.box.means.guard.Begin(&j.box.means.ward, lost)
	if err != nil {
		return &limit.Refusal{Message: "the workspace could not be checked for what a box may not change, so nothing runs in it", Err: err}
	}
	j.watched.Store(w)
	return nil
}

// unguard takes back the command's changes of protected paths. If that fails it
// ends the box, because the workspace is not protected any more.
func (j *Job) unguard() []protect.Reverted {
	w := j.watched.Load()
	if w == nil {
		return nil
	}
	told, err := w.End()
	if err != nil {
		j.box.life.fail(err.Error())
	}
	return told
}

// follow starts the goroutines that serve a running command until its end.
func (j *Job) follow(c *Cmd) {
	if !c.streams() {
		j.streams.readNow(&j.box.sup.reading.buffers)
	}
	j.streams.relay(c, &j.box.sup.reading.buffers)
	go func() {
		defer j.box.table.wg.Done() // table.enter added it
		j.watch(c.Timeout)
	}()
}

// begun waits until the init reports that the command runs. A caller's context does
// not end this wait: the command might then start with nobody to watch it. An init
// that is silent for too long is killed (see initProc.silence).
func (j *Job) begun(c *Cmd, req *boxinit.Request) (r boxinit.Reply, err error) {
	j.box.init.conn.Hear(initconn.Attend, j.box.init.hear, j.replies.some)
	select {
	case r = <-j.replies:
		j.box.init.answered(j)
		switch r.Op {
		case boxinit.OpStarted, boxinit.OpRan:
			j.pid.Store(int64(r.Pid))
			return r, nil
		case boxinit.OpFailed:
			return r, c.explain(j.box.means.image, r, req)
		case boxinit.OpStart, boxinit.OpSignal, boxinit.OpSocket, boxinit.OpListener, boxinit.OpKept, boxinit.OpIdle, boxinit.OpReady, boxinit.OpEnded:
		}
		j.box.init.kill() // an init that breaks the protocol may be under a command's control
		return r, errors.New("start command: the init spoke out of order")
	case <-j.box.init.gone:
		if j.box.init.answered(j) {
			return r, fmt.Errorf("start command: the init did not answer within %s", j.box.sup.patience.start)
		}
		j.box.table.mu.Lock()
		defer j.box.table.mu.Unlock()
		return r, j.box.table.goneErr()
	}
}

// abandon frees what was made for a command or a warm shell that does not run.
func (j *Job) abandon() {
	j.streams.close()
	if j.leaf != nil {
		j.leaf.Kill(time.Now().Add(j.box.sup.patience.kill))
		j.box.table.giveLeaf(j.leaf)
	}
	if j.streams.output == nil {
		return // a warm shell that was given no command
	}
	j.unguard()
	j.streams.output.end()
	// A caller that found the job in the list may wait for it.
	j.result = Result{Status: Killed, Output: j.streams.output}
	close(j.done)
}

// watch serves a job to its end: it enforces the time limit, kills the processes
// that the job left, and reads the rest of the output. Only watch decides the
// Status.
func (j *Job) watch(timeout time.Duration) {
	timer := time.NewTimer(time.Until(j.started.Add(timeout)))
	defer timer.Stop()
	status := Exited
	var end boxinit.Reply
	ended := false
	var stopping <-chan time.Time // the end of a grace period
	var asked Status              // the status after that grace period
	for waiting := true; waiting; {
		select {
		case r := <-j.replies:
			if r.Op != boxinit.OpEnded {
				continue
			}
			end, ended, waiting = r, true, false
			if stopping != nil {
				status = asked
			}
		case <-j.box.init.gone:
			status, waiting = Killed, false
		case <-timer.C:
			status, waiting = TimedOut, false
		case d := <-j.extend:
			timer.Reset(time.Until(j.started.Add(d)))
		case s := <-j.stop:
			if s.grace <= 0 {
				status, waiting = s.status, false
				continue
			}
			asked = s.status
			_ = j.box.init.send(&boxinit.Request{Op: boxinit.OpSignal, ID: j.wire, Signal: syscall.SIGTERM})
			stopping = time.After(s.grace)
		case <-stopping:
			status, waiting = asked, false
		}
	}
	j.conclude(status, end, ended)
}

// conclude finishes a job that has ended or must end.
func (j *Job) conclude(status Status, end boxinit.Reply, ended bool) {
	j.killAll(&end, &ended)
	wall := time.Since(j.started)
	j.finish(status, end, ended, wall)
}

// killAll kills what is left of the job. If the main process was still alive, it
// waits for the init's report of its end.
func (j *Job) killAll(end *boxinit.Reply, ended *bool) {
	deadline := time.Now().Add(j.box.sup.patience.kill)
	if j.leaf != nil {
		if !j.leaf.Kill(deadline) {
			j.box.life.fail("what it ran could not be killed")
			return
		}
	} else if !*ended {
		_ = j.box.init.send(&boxinit.Request{Op: boxinit.OpSignal, ID: j.wire, Signal: syscall.SIGKILL})
	}
	if *ended {
		return
	}
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	for {
		select {
		case r := <-j.replies:
			if r.Op == boxinit.OpEnded {
				*end, *ended = r, true
				return
			}
		case <-j.box.init.gone:
			return
		case <-late.C:
			j.box.life.fail("its init did not tell the end of a command")
			return
		}
	}
}

// finish reads the rest of the output, makes the Result and frees the job's
// resources.
func (j *Job) finish(status Status, end boxinit.Reply, ended bool, wall time.Duration) {
	j.streams.finish(&j.box.sup.reading.buffers)
	r := Result{Status: status, Wall: wall, Output: j.streams.output, Reverted: j.unguard()}
	j.box.means.door.settle()
	r.Blocked, _ = j.box.means.door.Blocked(j.refused)
	r.Execs = j.box.means.execs.toTell(j)
	if ended {
		r.Code, r.Dir = end.Status.ExitStatus(), end.Dir
		if end.Status.Signaled() {
			r.Signal = end.Status.Signal()
			r.Code = 128 + int(r.Signal)
		}
		r.Usage = limit.Usage{CPU: time.Duration(end.CPU), PeakMemory: end.RSS}
	} else {
		r.Code, r.Signal = 128+int(syscall.SIGKILL), syscall.SIGKILL
	}
	// The kernel counts out-of-memory kills for the whole box. A command that was
	// not killed itself did not run out of memory.
	killed := r.Signal == syscall.SIGKILL || r.Code == 128+int(syscall.SIGKILL)
	if status == Exited && (j.oom.Load() || killed && j.box.table.ranOut(j.box.means.group)) {
		r.Status = OOM
	}
	if j.leaf != nil {
		j.box.table.giveLeaf(j.leaf)
	}
	j.box.life.leave(j, true)
	j.result = r
	close(j.done)
	if t := j.warming.Load(); t != nil && t.Stop() {
		j.box.warmUp()
	}
}

// Reverted returns the changes of protected paths that were taken back so far
// while the job ran: see Result.Reverted.
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
