package initconn

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/rawsys"
)

// Conn is the supervisor's end of the connection to an init. It is a socket that keeps the
// boundaries of messages.
//
// One goroutine runs Listen all the time. Another goroutine that waits for an answer may
// take the turn and receive in its place: see Strategy. Receive is for the time before
// Listen is called. All other methods are safe for concurrent use.
type Conn struct {
	steady *rawsys.Readiness // wakes Listen
	direct *rawsys.Readiness // wakes Receive and Hear
	timer  int               // timerfd_create(2), added to direct

	turn sync.Mutex // held to receive a message, until the message is dealt with
	text []byte     // text of the last message; guarded by turn

	mu     sync.RWMutex // locked for writing to close the socket
	socket int          // -1 once closed
	failed error        // why it was closed, or nil
	sendMu sync.Mutex   // held to send one message at a time
}

// Handler deals with a message of the init and the descriptors that came with it, which the
// Handler owns. The text is valid until the Handler returns. Its error ends the connection.
type Handler func(text []byte, files []int) error

// Pair makes a connection. Both ends belong to the caller; theirs is for the init.
func Pair() (c *Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make connection to init: %w", err)
	}
	if c, err = Of(fds[0]); err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	return c, os.NewFile(uintptr(fds[1]), "init"), nil
}

// Of makes a connection from a socket. The connection owns the socket; Of closes it on an
// error.
func Of(socket int) (_ *Conn, err error) {
	c := &Conn{socket: socket, timer: -1, text: make([]byte, boxinit.MaxReply+1)}
	if c.steady, err = rawsys.NewReadiness(socket); err == nil {
		c.direct, err = rawsys.NewReadiness(socket)
	}
	if err == nil {
		c.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	}
	if err == nil {
		err = c.direct.Add(c.timer)
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("make connection to init: %w", err)
	}
	return c, nil
}

// do calls f with the socket, unless it is closed.
func (c *Conn) do(f func(socket int) error) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.socket < 0 {
		return os.ErrClosed
	}
	for {
		if err := f(c.socket); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Send sends one message with copies of the files. It waits at most patience for
// room in the socket.
func (c *Conn) Send(text []byte, files []int, patience time.Duration) error {
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.do(func(socket int) error {
		err := rawsys.Sendmsg(socket, text, rights)
		if !errors.Is(err, unix.EAGAIN) {
			return err
		}
		fds := []unix.PollFd{{Fd: int32(socket), Events: unix.POLLOUT}}
		switch n, err := unix.Poll(fds, int(patience.Milliseconds())); {
		case err != nil:
			return err
		case n == 0:
			return os.ErrDeadlineExceeded
		}
		return rawsys.Sendmsg(socket, text, rights)
	})
}

// Receive waits for one message and returns it with its descriptors, which the
// caller owns. The text is valid until the next message. A message that is too
// long is an error.
func (c *Conn) Receive() (text []byte, files []int, err error) {
	waited := c.direct.Wait(func() bool {
		text, files, err = c.next()
		return !errors.Is(err, unix.EAGAIN)
	})
	if waited != nil {
		return nil, nil, c.why(waited)
	}
	return text, files, err
}

// Listen calls deal with each message, until deal or the connection fails. While
// another goroutine has the turn, Listen receives nothing.
func (c *Conn) Listen(deal Handler) error {
	for {
		var text []byte
		var files []int
		var err error
		waited := c.steady.Wait(func() bool {
			if !c.turn.TryLock() {
				return false // endTurn wakes Listen
			}
			if text, files, err = c.next(); errors.Is(err, unix.EAGAIN) {
				c.turn.Unlock()
				return false
			}
			return true
		})
		if waited != nil {
			return c.why(waited)
		}
		if err == nil {
			err = deal(text, files)
		}
		c.turn.Unlock()
		if err != nil {
			return err
		}
	}
}

// takeTurn takes the turn if it is free, and reports whether it was. The caller may receive
// until endTurn.
func (c *Conn) takeTurn() bool {
	if !c.turn.TryLock() {
		return false
	}
	_ = c.steady.Mask() // fails only on a closed connection, on which receiving fails too
	return true
}

// endTurn lets Listen continue.
func (c *Conn) endTurn() {
	c.turn.Unlock() // before Listen is woken, which could not take the turn otherwise
	_ = c.steady.Unmask()
}

// next returns the next message, or EAGAIN if none has arrived.
func (c *Conn) next() (text []byte, files []int, err error) {
	var rights [64]byte
	n, rightsN, flags := 0, 0, 0
	get := func(socket int) error {
		n, rightsN, flags, err = rawsys.Recvmsg(socket, c.text, rights[:])
		return err
	}
	if err = c.do(get); errors.Is(err, unix.ECONNRESET) {
		// The init ended without reading a message of the supervisor. The kernel reports
		// that once, before it delivers what the init had sent.
		err = c.do(get)
	}
	if err != nil {
		return nil, nil, err
	}
	files, err = boxinit.Rights(rights[:rightsN])
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		boxinit.CloseAll(files)
		return nil, nil, fmt.Errorf("message of the init over %d bytes", boxinit.MaxReply)
	}
	return c.text[:n], files, err
}

// Expect sets the deadline of the next Receive; the zero time means none.
func (c *Conn) Expect(deadline time.Time) error { return c.direct.SetDeadline(deadline) }

// Fail closes the connection; Listen returns the error.
func (c *Conn) Fail(err error) {
	c.mu.Lock()
	c.failed = cmp.Or(c.failed, err)
	c.mu.Unlock()
	_ = c.Close()
}

// why returns the error that the connection was closed with, or found if there is no such
// error.
func (c *Conn) why(found error) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return cmp.Or(c.failed, found)
}

// Close ends the connection, and with it the init. It may be called twice.
func (c *Conn) Close() error {
	var errs []error
	for _, r := range []*rawsys.Readiness{c.steady, c.direct} {
		if r != nil {
			errs = append(errs, r.Close()) // ends Listen, Receive and Hear
		}
	}
	_ = c.do(func(socket int) error { return unix.Shutdown(socket, unix.SHUT_RDWR) }) // ends Send
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.socket >= 0 {
		unix.Close(c.socket)
		unix.Close(c.timer)
		c.socket, c.timer = -1, -1
	}
	return errors.Join(errs...)
}
