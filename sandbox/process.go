package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/initconn"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/protect"
	"belljar.dev/sandbox/rawsys"
)

// startCold starts a command in a new process.
func startCold(b *Box, c *Cmd) (*Job, error) {
	j := newJob(b)
	b.table.mu.Lock()
	err := b.table.enter(c, j)
	b.table.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := j.launch(c); err != nil {
		b.table.free(j)
		j.giveUp()
		return nil, err
	}
	return j, nil
}

// launch makes the pipes and the leaf, asks the init to start the command, and
// waits until it runs. Then watch owns the job, unless it has already ended.
func (j *Job) launch(c *Cmd) error {
	if err := j.guard(); err != nil {
		return err
	}
	files, err := j.streams.connect(j.box, c)
	if err != nil {
		boxinit.CloseAll(files)
		return err
	}
	r, err := j.request(c, c.request(j.box, j.wire), files)
	if err != nil {
		return err
	}
	ended := r.Op == boxinit.OpRan
	r.Op = boxinit.OpEnded
	j.follow(c, r, ended)
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
		return r, errors.New("start command: the init sent a message out of order")
	case <-j.box.init.gone:
		if j.box.init.answered(j) {
			return r, fmt.Errorf("start command: the init did not answer within %s", j.box.sup.patience.start)
		}
		j.box.table.mu.Lock()
		defer j.box.table.mu.Unlock()
		return r, j.box.table.goneErr()
	}
}

// guard makes the workspace's protector watch the command. It is called before the
// command runs.
func (j *Job) guard() error {
	if j.box.means.guard == nil {
		return nil
	}
	lost := func(err error) { j.box.life.fail(err.Error()) }
	w, err := j.box.means.guard.Begin(&j.box.means.state, lost)
	if err != nil {
		return &limit.Refusal{Message: "the workspace could not be checked for what a box may not change, so nothing runs in it", Err: err}
	}
	j.watched.Store(w)
	return nil
}

// unguard reverts the command's changes of protected paths. If that fails it ends the box,
// because the workspace is not protected any more.
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

// follow sees a command that was started through to its end, in goroutines of its own.
// If it has ended already, end is the reply that reports that, and follow concludes it.
func (j *Job) follow(c *Cmd, end boxinit.Reply, ended bool) {
	if ended && !c.streams() {
		j.conclude(Exited, end, true)
		j.box.table.wg.Done() // table.enter added it
		return
	}
	if !c.streams() {
		j.streams.readNow(&j.box.sup.reading.buffers)
	}
	j.streams.relay(c, &j.box.sup.reading.buffers)
	go func() {
		defer j.box.table.wg.Done() // table.enter added it
		if !ended {
			j.watch(c.Timeout)
			return
		}
		j.conclude(Exited, end, true) // not through replies, which an init may have filled with other messages
	}()
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
	j.finish(status, end, ended, time.Since(j.started))
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
			j.box.life.fail("its init did not report the end of a command")
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
	r.exit(end, ended)
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
		t.Reset(0)
	}
}

// exit records how the main process ended. Without a report of the init it was killed.
func (r *Result) exit(end boxinit.Reply, reported bool) {
	if !reported {
		r.Code, r.Signal = 128+int(syscall.SIGKILL), syscall.SIGKILL
		return
	}
	r.Code, r.Dir = end.Status.ExitStatus(), end.Dir
	if end.Status.Signaled() {
		r.Signal = end.Status.Signal()
		r.Code = 128 + int(r.Signal)
	}
	r.Usage = limit.Usage{CPU: time.Duration(end.CPU), PeakMemory: end.RSS}
}

// giveUp takes a command that does not run out of the table, and ends it for callers that
// found it there and wait for it.
func (j *Job) giveUp() {
	j.unguard()
	j.streams.output.end()
	j.result = Result{Status: Killed, Output: j.streams.output}
	close(j.done)
	j.box.life.leave(j, false)
	j.box.table.wg.Done() // table.enter added it
}
