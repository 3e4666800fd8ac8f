package sandbox

import (
	"errors"
	"fmt"
	"slices"

	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/initconn"
	"belljar.dev/sandbox/rawsys"
)

// startCold starts a command in a new process.
func (b *Box) startCold(c *Cmd) (*Job, error) {
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
