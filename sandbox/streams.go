package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/rawsys"
)

// streams are the supervisor's ends of what a command reads and writes.
type streams struct {
	output   *Output        // output that is kept; nil for a warm shell without a command
	record   io.WriteCloser // gets a copy of the output; nil without a record
	pipes    []*pipe        // pipes of its output
	input    *os.File       // write end of a streamed stdin, or nil
	terminal *os.File       // its terminal, also in pipes, or nil
	readers  sync.WaitGroup
}

// connect makes stdin, stdout and stderr of a command in the box, and returns the
// command's ends.
func (s *streams) connect(b *Box, c *Cmd) ([]int, error) {
	if c.Terminal != nil {
		master, slave, err := openTerminal(b, c.Alone, *c.Terminal)
		if err != nil {
			return nil, err
		}
		s.terminal, s.pipes = master, []*pipe{{fd: -1, file: master}}
		return []int{slave}, nil
	}
	var files []int
	in, err := s.stdin(b, c)
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
		if err := rawsys.Chown(p[1], b.means.uid); err != nil {
			unix.Close(p[0])
			return files, fmt.Errorf("hand out pipe: %w", err)
		}
		// Only the supervisor's end: a program does not expect its output to be
		// non-blocking.
		if err := rawsys.SetNonblock(p[0]); err != nil {
			unix.Close(p[0])
			return files, fmt.Errorf("make pipe: %w", err)
		}
		s.pipes = append(s.pipes, &pipe{fd: p[0]})
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
func (s *streams) stdin(b *Box, c *Cmd) (int, error) {
	switch {
	case c.In != nil:
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return -1, fmt.Errorf("make pipe: %w", err)
		}
		if err := errors.Join(unix.Fchown(p[0], b.means.uid, -1), unix.SetNonblock(p[1], true)); err != nil {
			boxinit.CloseAll(p[:])
			return -1, fmt.Errorf("hand out pipe: %w", err)
		}
		s.input = os.NewFile(uintptr(p[1]), "pipe")
		return p[0], nil
	case len(c.Stdin) > 0:
		return sealed("stdin", c.Stdin) // a pipe would need a goroutine that writes to it
	}
	fd, err := rawsys.Dup(int(b.means.null.Fd()))
	if err != nil {
		return -1, fmt.Errorf("hand out %s: %w", os.DevNull, err)
	}
	return fd, nil
}

// relay starts to read the command's output and to write its input.
func (s *streams) relay(c *Cmd, with *buffers) {
	to := []io.Writer{c.Out, c.Err}
	for i, p := range s.pipes {
		w := s.keep(i)
		if to[i] != nil {
			w = to[i]
		}
		f := p.wait()
		s.readers.Go(func() { with.drain(f, w) })
	}
	if s.terminal != nil {
		// Nobody waits for this goroutine, as below. It needs no copy of the
		// descriptor: finish closes the file, and the next write fails.
		go func() { _, _ = io.Copy(s.terminal, c.In) }()
	}
	if s.input != nil {
		// Nobody waits for this goroutine: a read from a terminal cannot be
		// interrupted. The copy ends with the next byte, or with the program.
		go func() {
			_, _ = io.Copy(s.input, c.In)
			s.input.Close()
		}()
	}
}

// readNow keeps what has been written so far.
func (s *streams) readNow(with *buffers) {
	// Read stdout before stderr: a glance ends at the first byte on stderr,
	// so what is in stdout was most likely written earlier.
	for i, p := range s.pipes {
		_ = with.drainNow(p.fd, s.keep(i))
	}
}

// finish reads the rest of the output and closes everything except the output itself. The
// writers are dead, so at most one pipe's content is left to read. The deadline is for a
// descriptor that was passed to another command.
func (s *streams) finish(with *buffers) {
	for i, p := range s.pipes {
		if p.file == nil && !with.drainNow(p.fd, s.keep(i)) {
			f := p.wait()
			s.readers.Go(func() { with.drain(f, s.keep(i)) })
		}
		if p.file != nil {
			_ = p.file.SetReadDeadline(time.Now().Add(drainDeadline))
		}
	}
	s.readers.Wait()
	s.close()
	s.output.end()
	if s.record != nil {
		_ = s.record.Close()
	}
}

// close closes the pipes.
func (s *streams) close() {
	for _, p := range s.pipes {
		p.close()
	}
	if s.input != nil {
		s.input.Close()
	}
}

// keep returns a writer that adds the bytes of the i-th pipe to the output.
func (s *streams) keep(i int) io.Writer {
	return writerFunc(func(b []byte) {
		s.output.add(Stdout+Stream(i), b)
		if s.record != nil {
			_, _ = s.record.Write(b) // its failure must not fail the command
		}
	})
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// pipe is the supervisor's end of a pipe that a command writes to.
type pipe struct {
	fd   int      // non-blocking; -1 if the stream has no pipe
	file *os.File // the same descriptor, made a file when the runtime must wait for it: most commands end before
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
		rawsys.Close(p.fd)
		p.fd = -1
	}
}

// drainDeadline bounds the reading of the rest of a dead command's output.
const drainDeadline = 250 * time.Millisecond

// buffers lends the buffers with which pipes are read. New ones for each command would keep
// the collector busy.
type buffers struct{ pool sync.Pool } // contains *[pipeBuffer]byte

// pipeBuffer is half of the capacity of a pipe (pipe(7)).
const pipeBuffer = 32 << 10

// drain copies a pipe until its end or its deadline. If the writer fails, drain
// continues to read without it, so that the command does not hang on a full pipe.
func (b *buffers) drain(p *os.File, w io.Writer) {
	if r, ok := w.(io.ReaderFrom); ok {
		_, _ = r.ReadFrom(p)
		w = nil
	}
	buf := b.get()
	defer b.pool.Put(buf)
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
func (b *buffers) drainNow(fd int, w io.Writer) bool {
	buf := b.get()
	defer b.pool.Put(buf)
	const most = 64 // number of reads: a pipe contains up to 1 MiB, and a process may keep writing
	for range most {
		n, err := rawsys.Read(fd, buf[:])
		if n <= 0 {
			return err == nil
		}
		_, _ = w.Write(buf[:n])
	}
	return false
}

func (b *buffers) get() *[pipeBuffer]byte {
	if buf, ok := b.pool.Get().(*[pipeBuffer]byte); ok {
		return buf
	}
	return new([pipeBuffer]byte)
}
