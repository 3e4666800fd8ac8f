package browser

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox"
)

// Seat is a Chrome in a box of its own, for one session and never lent to another. Its
// owner uses the DevTools protocol over its pipe.
type Seat struct {
	From *bufio.Reader // messages of Chrome: see ReadMessage
	To   *os.File      // commands: JSON, each followed by a NUL

	forget  func(*Seat)
	box     *sandbox.Box
	job     *sandbox.Job
	from    *os.File
	version string
	closing sync.Once
	gone    chan struct{} // closed when nothing of it is left

	mu     sync.Mutex
	frozen bool
}

// Version returns the name and version that Chrome reports.
func (s *Seat) Version() string { return s.version }

// ID returns the name of its box.
func (s *Seat) ID() string { return s.box.ID() }

// Done returns a channel that is closed when its Chrome has ended, for whatever reason.
func (s *Seat) Done() <-chan struct{} { return s.job.Done() }

// Memory returns how many bytes of memory its processes use.
func (s *Seat) Memory() int64 { return s.box.Used().Memory }

// CPU returns how much processor time its processes have used since the start.
func (s *Seat) CPU() time.Duration { return s.box.Used().CPU }

// Freeze stops the processes of its Chrome: they use no processor time and answer nothing
// until Thaw (SIGSTOP and SIGCONT of signal(7)). It may be called twice, and Close needs no
// Thaw.
func (s *Seat) Freeze() { s.freeze(true) }

// Thaw lets the processes of its Chrome run again.
func (s *Seat) Thaw() { s.freeze(false) }

// Frozen reports whether the processes of its Chrome are stopped.
func (s *Seat) Frozen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frozen
}

func (s *Seat) freeze(frozen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen == frozen {
		return
	}
	signal := unix.SIGCONT
	if frozen {
		signal = unix.SIGSTOP
	}
	if s.job.Signal(signal) == nil { // otherwise Chrome has ended
		s.frozen = frozen
	}
}

// Refused returns the line, for the agent, with which the egress door last refused a
// connection to the host of a URL, or "".
func (s *Seat) Refused(url string) string { return doorLine(s.box, url) }

// Open opens a file of its box, such as a download, for reading. See sandbox.Box.OpenFile.
func (s *Seat) Open(ctx context.Context, name string) (*os.File, error) {
	return s.box.OpenFile(ctx, name)
}

// Put writes a new file into its box, in a directory of its own.
func (s *Seat) Put(ctx context.Context, name string, from io.Reader) error {
	r, err := s.box.Run(ctx, sandbox.Cmd{
		Grant: s.box.Grant(), Timeout: time.Minute, Dir: "/tmp", In: from,
		Argv: []string{"sh", "-c", `umask 077; mkdir -p -- "${1%/*}" && exec dd of="$1" conv=excl oflag=nofollow bs=64k status=none`, "put", name},
	})
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("write %s: status %d", name, r.Code)
	}
	return err
}

// Remove removes files of its box, if they exist.
func (s *Seat) Remove(ctx context.Context, names ...string) error {
	r, err := s.box.Run(ctx, sandbox.Cmd{Grant: s.box.Grant(), Timeout: 5 * time.Second, Argv: append([]string{"rm", "-f", "--"}, names...), Dir: "/tmp"})
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("remove files: status %d", r.Code)
	}
	return err
}

// Close ends the Chrome and everything in its box, and waits until nothing of it is left.
// It may be called twice and concurrently.
func (s *Seat) Close() {
	s.forget(s)
	s.close()
}

func (s *Seat) close() {
	s.closing.Do(func() {
		if s.To != nil {
			s.To.Close()
		}
		if s.from != nil {
			s.from.Close()
		}
		_ = s.box.Close() // kills all processes in it
		close(s.gone)
	})
	<-s.gone
}

// ErrTooLong is the error that ReadMessage returns with the beginning of a message that was
// too long to be kept.
var ErrTooLong = errTooLong

// ReadMessage reads up to the next NUL. If a message has more than 64 MiB, it reads the
// whole message and returns its beginning, and ErrTooLong.
func ReadMessage(r *bufio.Reader) ([]byte, error) { return readMessage(r, maxMessage) }
