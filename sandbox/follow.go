package sandbox

import (
	"syscall"
	"time"

	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/protect"
)

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
		if ended {
			// Not by way of replies: an init may have filled them with more.
			j.conclude(Exited, end, true)
			return
		}
		j.watch(c.Timeout)
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
		t.Reset(0)
	}
}

// giveUp takes a command that does not run out of the table, and ends it for callers
// that found it there and wait for it.
func (j *Job) giveUp() {
	j.unguard()
	j.streams.output.end()
	j.result = Result{Status: Killed, Output: j.streams.output}
	close(j.done)
	j.box.life.leave(j, false)
	j.box.table.wg.Done() // table.enter added it
}
