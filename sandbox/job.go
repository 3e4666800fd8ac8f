package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/protect"
)

// Job is a command that was started. It ends when its main process ends, even if
// another process keeps its output open. Then all processes that it left are
// killed. Its methods are safe for concurrent use.
type Job struct {
	box     *Box
	wire    uint64 // number on the wire to the init
	command string
	grant   policies.Grant
	started time.Time
	output  *Output
	record  io.WriteCloser // gets a copy of the output; nil for none
	leaf    *cgroup.Leaf   // its cgroup, or nil

	replies  chan boxinit.Reply // from Box.hear; room for both replies of a job
	stop     chan stopRequest   // how to end it; room for one
	extend   chan time.Duration
	readers  sync.WaitGroup
	pipes    []*pipe                       // our ends of its output
	input    *os.File                      // write end of a streamed stdin
	terminal *os.File                      // our end of its terminal; also in pipes
	watched  atomic.Pointer[protect.Watch] // by the workspace's protector, or nil
	refused  uint64                        // position in the door's refusals when the job began
	warming  atomic.Pointer[time.Timer]    // starts the next warm shell if the job runs for a while
	done     chan struct{}
	oom      atomic.Bool  // the watchdog killed it
	pid      atomic.Int64 // in the box, as the init reports; 0 until it runs

	execLog execLog // guarded by box.execs.mu

	mu     sync.Mutex
	id     int64 // task_id; 0 for a foreground command; set under box.mu too
	result Result
}

// pipe is our end of what a command writes to.
type pipe struct {
	fd   int      // non-blocking; -1 if the stream has no pipe
	file *os.File // the same, made when the runtime must wait for it: most commands end before
}

// wait returns the pipe as a file for which the runtime waits.
func (p *pipe) wait() *os.File {
	if p.file == nil {
		p.file = os.NewFile(uintptr(p.fd), "pipe")
	}
	return p.file
}

// noPipe stands for a stream without a pipe.
var noPipe = pipe{fd: -1}

// close closes the pipe. It may be called twice.
func (p *pipe) close() {
	switch {
	case p.file != nil:
		p.file.Close()
	case p.fd >= 0:
		closeNow(p.fd)
		p.fd = -1
	}
}

// stopRequest asks for the end of a job.
type stopRequest struct {
	status Status
	grace  time.Duration // time between SIGTERM and SIGKILL; 0 for SIGKILL at once
}

func newJob(b *Box, wire uint64) *Job {
	return &Job{
		box: b, wire: wire,
		replies: make(chan boxinit.Reply, 2), stop: make(chan stopRequest, 1), extend: make(chan time.Duration, 1),
		done: make(chan struct{}),
	}
}

// assign gives the job its command.
func (j *Job) assign(c *Cmd) {
	j.command = c.Shell
	if c.Shell == "" {
		j.command = strings.Join(c.Argv, " ")
	}
	j.grant, j.started, j.record = c.Grant, time.Now(), c.Record
	j.output = newOutput(c.Grant.Limits().Output, j.box.sup.spool)
	_, j.refused = j.box.door.Blocked(math.MaxUint64)
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
func (j *Job) Output() *Output { return j.output }

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
	return j.box.send(&boxinit.Request{Op: boxinit.OpSignal, ID: j.wire, Signal: sig})
}

// Promote turns a foreground command into a background job, which may run for
// timeout from its start. The error wraps limit.ErrTooMany if the box has too many jobs.
func (j *Job) Promote(timeout time.Duration) error {
	if most := j.grant.Limits().Background; timeout <= 0 || timeout > most {
		return &limit.Refusal{Message: fmt.Sprintf("a background task may run for up to %s in profile %q, not %s", most, j.grant.Profile(), timeout), Ran: true}
	}
	b := j.box
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running[j.wire] == nil {
		return fmt.Errorf("promote command: %w", os.ErrProcessDone)
	}
	if j.ID() != 0 {
		return fmt.Errorf("promote command: it is background task %d already", j.ID())
	}
	if err := b.roomForJob(j.grant); err != nil {
		return err
	}
	j.extend <- timeout // there is room: it is promoted once
	j.mu.Lock()
	defer j.mu.Unlock()
	b.list(j)
	return nil
}

// hear takes a reply of the init, and reports whether there was room for it.
func (j *Job) hear(r boxinit.Reply) bool {
	select {
	case j.replies <- r:
		return true
	default:
		return false
	}
}

// launch makes the pipes and the leaf, asks the init to start the command, and
// waits until it runs. Then watch owns the job, unless it has already ended.
func (j *Job) launch(c *Cmd) error {
	if err := j.guard(); err != nil {
		j.abandon()
		return err
	}
	files, err := j.connect(c)
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
			j.box.wg.Done() // Box.enter added it
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
	defer closeNow(files...)
	if j.leaf, err = j.box.takeLeaf(); err != nil {
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
	j.box.ask(j)
	if err := j.box.send(req, given...); err != nil {
		j.box.answered(j)
		return err
	}
	return nil
}

// guard makes the workspace's protector watch the command. It is called before the
// command runs.
func (j *Job) guard() error {
	if j.box.guard == nil {
		return nil
	}
	lost := func(err error) { j.breakBox(err.Error()) }
	w, err := j.box.guard.Begin(&j.box.ward, lost)
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
		j.breakBox(err.Error())
	}
	return told
}

// follow starts the goroutines that serve a running command until its end.
func (j *Job) follow(c *Cmd) {
	if !c.streams() {
		// Read stdout before stderr: a glance ends at the first byte on stderr,
		// so what is in stdout was most likely written earlier.
		for i, p := range j.pipes {
			_ = j.box.sup.drainNow(p.fd, j.keep(i))
		}
	}
	j.relay(c)
	go func() {
		defer j.box.wg.Done() // Box.enter added it
		j.watch(c.Timeout)
	}()
}

// begun waits until the init reports that the command runs. A caller's context does
// not end this wait: the command might then start with nobody to watch it. An init
// that is silent for too long is killed (see Box.silence).
func (j *Job) begun(c *Cmd, req *boxinit.Request) (r boxinit.Reply, err error) {
	j.box.attend(j)
	select {
	case r = <-j.replies:
		j.box.answered(j)
		switch r.Op {
		case boxinit.OpStarted, boxinit.OpRan:
			j.pid.Store(int64(r.Pid))
			return r, nil
		case boxinit.OpFailed:
			return r, j.box.explainFailure(r, c, req)
		case boxinit.OpStart, boxinit.OpSignal, boxinit.OpSocket, boxinit.OpListener, boxinit.OpKept, boxinit.OpIdle, boxinit.OpReady, boxinit.OpEnded:
		}
		_ = j.box.process.Kill() // an init that breaks the protocol may be under a command's control
		return r, errors.New("start command: the init spoke out of order")
	case <-j.box.gone:
		if j.box.answered(j) {
			return r, fmt.Errorf("start command: the init did not answer within %s", j.box.sup.patience.start)
		}
		j.box.mu.Lock()
		defer j.box.mu.Unlock()
		return r, j.box.goneErr()
	}
}

// abandon frees what was made for a command or a warm shell that does not run.
func (j *Job) abandon() {
	for _, p := range j.pipes {
		p.close()
	}
	if j.input != nil {
		j.input.Close()
	}
	if j.leaf != nil {
		j.leaf.Kill(time.Now().Add(j.box.sup.patience.kill))
		j.box.giveLeaf(j.leaf)
	}
	if j.output == nil {
		return // a warm shell that was given no command
	}
	j.unguard()
	j.output.end()
	// A caller that found the job in the list may wait for it.
	j.result = Result{Status: Killed, Output: j.output}
	close(j.done)
}

// connect makes stdin, stdout and stderr and returns the command's ends.
func (j *Job) connect(c *Cmd) ([]int, error) {
	if c.Terminal != nil {
		master, slave, err := j.box.openTerminal(c.Alone, *c.Terminal)
		if err != nil {
			return nil, err
		}
		j.terminal, j.pipes = master, []*pipe{{fd: -1, file: master}}
		return []int{slave}, nil
	}
	var files []int
	in, err := j.stdin(c)
	if err != nil {
		return nil, err
	}
	files = append(files, in)
	for range 2 {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return files, fmt.Errorf("make pipe: %w", err)
		}
		files = append(files, p[1])
		// A program may open its own output again by its name, /dev/stdout. Then
		// the owner of the pipe counts.
		if err := chownNow(p[1], j.box.uid); err != nil {
			unix.Close(p[0])
			return files, fmt.Errorf("hand out pipe: %w", err)
		}
		// Only our end: a program does not expect its output to be
		// non-blocking.
		if err := unblockNow(p[0]); err != nil {
			unix.Close(p[0])
			return files, fmt.Errorf("make pipe: %w", err)
		}
		j.pipes = append(j.pipes, &pipe{fd: p[0]})
	}
	for _, f := range c.Files {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return files, fmt.Errorf("hand out a file: %w", err)
		}
		files = append(files, fd)
	}
	return files, nil
}

// stdin returns the file that the command reads from.
func (j *Job) stdin(c *Cmd) (int, error) {
	switch {
	case c.In != nil:
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return -1, fmt.Errorf("make pipe: %w", err)
		}
		if err := errors.Join(unix.Fchown(p[0], j.box.uid, -1), unix.SetNonblock(p[1], true)); err != nil {
			boxinit.CloseAll(p[:])
			return -1, fmt.Errorf("hand out pipe: %w", err)
		}
		j.input = os.NewFile(uintptr(p[1]), "pipe")
		return p[0], nil
	case len(c.Stdin) > 0:
		return sealed("stdin", c.Stdin) // a pipe would need a goroutine that writes to it
	}
	fd, err := copyNow(int(j.box.null.Fd()))
	if err != nil {
		return -1, fmt.Errorf("hand out %s: %w", os.DevNull, err)
	}
	return fd, nil
}

// relay starts to read the command's output and to write its input.
func (j *Job) relay(c *Cmd) {
	to := []io.Writer{c.Out, c.Err}
	for i, p := range j.pipes {
		w := j.keep(i)
		if to[i] != nil {
			w = to[i]
		}
		f := p.wait()
		j.readers.Go(func() { j.box.sup.drain(f, w) })
	}
	if j.terminal != nil {
		// Nobody waits for this goroutine, as below. It needs no copy of the
		// descriptor: finish closes the file, and the next write fails.
		go func() { _, _ = io.Copy(j.terminal, c.In) }()
	}
	if j.input != nil {
		// Nobody waits for this goroutine: a read from a terminal cannot be
		// interrupted. The copy ends with the next byte, or with the program.
		go func() {
			_, _ = io.Copy(j.input, c.In)
			j.input.Close()
		}()
	}
}

// keep returns a writer that adds the bytes of the i-th pipe to the output.
func (j *Job) keep(i int) io.Writer {
	return writerFunc(func(b []byte) {
		j.output.add(Stdout+Stream(i), b)
		if j.record != nil {
			_, _ = j.record.Write(b) // its failure must not fail the command
		}
	})
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// pipeBuffer is half of the capacity of a pipe (pipe(7)).
const pipeBuffer = 32 << 10

// drain copies a pipe until its end or its deadline. If the writer fails, drain
// continues to read without it, so that the command does not hang on a full pipe.
func (s *Supervisor) drain(p *os.File, w io.Writer) {
	buf := s.buffer()
	defer s.buffers.Put(buf)
	for {
		n, err := p.Read(buf[:])
		if n > 0 && w != nil {
			if _, werr := w.Write(buf[:n]); werr != nil {
				w = nil
			}
		}
		if err != nil {
			return
		}
	}
}

// drainNow copies the bytes that are in a pipe, and reports whether it has reached
// the end of the pipe.
func (s *Supervisor) drainNow(fd int, w io.Writer) bool {
	buf := s.buffer()
	defer s.buffers.Put(buf)
	const most = 64 // reads: a pipe holds up to 1 MiB, and a process may keep writing
	for range most {
		n, err := readNow(fd, buf[:])
		if n <= 0 {
			return err == nil
		}
		_, _ = w.Write(buf[:n])
	}
	return false
}

func (s *Supervisor) buffer() *[pipeBuffer]byte {
	if buf, ok := s.buffers.Get().(*[pipeBuffer]byte); ok {
		return buf
	}
	return new([pipeBuffer]byte)
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
		case <-j.box.gone:
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
			_ = j.box.send(&boxinit.Request{Op: boxinit.OpSignal, ID: j.wire, Signal: syscall.SIGTERM})
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
			j.breakBox("what it ran could not be killed")
			return
		}
	} else if !*ended {
		_ = j.box.send(&boxinit.Request{Op: boxinit.OpSignal, ID: j.wire, Signal: syscall.SIGKILL})
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
		case <-j.box.gone:
			return
		case <-late.C:
			j.breakBox("its init did not tell the end of a command")
			return
		}
	}
}

// breakBox ends a box that no longer works as it must.
func (j *Job) breakBox(why string) {
	j.box.sup.cfg.Log.Error("box is killed", "box", j.box.id, "reason", why)
	_ = j.box.process.Kill()
	<-j.box.gone
}

// finish reads the rest of the output, makes the Result and frees the job's
// resources.
func (j *Job) finish(status Status, end boxinit.Reply, ended bool, wall time.Duration) {
	// The writers are dead, so at most one pipe's content is left to read. The
	// deadline is for a descriptor that was passed to another command.
	for i, p := range j.pipes {
		if p.file == nil && !j.box.sup.drainNow(p.fd, j.keep(i)) {
			f := p.wait()
			j.readers.Go(func() { j.box.sup.drain(f, j.keep(i)) })
		}
		if p.file != nil {
			_ = p.file.SetReadDeadline(time.Now().Add(drainDeadline))
		}
	}
	j.readers.Wait()
	for _, p := range j.pipes {
		p.close()
	}
	if j.input != nil {
		j.input.Close()
	}
	j.output.end()
	if j.record != nil {
		_ = j.record.Close()
	}
	r := Result{Status: status, Wall: wall, Output: j.output, Reverted: j.unguard()}
	j.box.door.settle()
	r.Blocked, _ = j.box.door.Blocked(j.refused)
	r.Execs = j.execsAtEnd()
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
	if status == Exited && (j.oom.Load() || killed && j.box.ranOut()) {
		r.Status = OOM
	}
	if j.leaf != nil {
		j.box.giveLeaf(j.leaf)
	}
	j.box.leave(j, true)
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
