package sandbox

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

// wire is the supervisor's end of the connection to an init. It is a socket that
// keeps the boundaries of messages.
//
// One goroutine runs listen all the time. A goroutine that waits for one answer
// may take the turn and receive the answer itself: the thread that the answer
// wakes then continues with it, and need not wake another thread.
//
// Only one goroutine at a time may call listen. Receive is for the goroutine that
// has the turn, or for the only one before listen is called. All other methods
// are safe for concurrent use.
type wire struct {
	steady *rawsys.Readiness // wakes listen
	direct *rawsys.Readiness // wakes receive

	turn sync.Mutex // held to receive a message, until it is dealt with
	text []byte     // of the last message; guarded by turn

	mu     sync.RWMutex // held for writing to close
	socket int          // -1 once closed
	failed error        // why it was closed, or nil
	sendMu sync.Mutex   // one message at a time
}

// newWire makes a connection. Both ends belong to the caller; theirs is for the
// init.
func newWire() (w *wire, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make connection to init: %w", err)
	}
	if w, err = wireOf(fds[0]); err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	return w, os.NewFile(uintptr(fds[1]), "init"), nil
}

// wireOf makes a wire over a socket. The wire owns the socket; wireOf closes it
// on an error.
func wireOf(socket int) (w *wire, err error) {
	w = &wire{socket: socket, text: make([]byte, boxinit.MaxReply+1)}
	if w.steady, err = rawsys.NewReadiness(socket); err != nil {
		unix.Close(socket)
		return nil, fmt.Errorf("make connection to init: %w", err)
	}
	if w.direct, err = rawsys.NewReadiness(socket); err != nil {
		w.steady.Close()
		unix.Close(socket)
		return nil, fmt.Errorf("make connection to init: %w", err)
	}
	return w, nil
}

// do calls f with the socket, unless it is closed.
func (w *wire) do(f func(socket int) error) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.socket < 0 {
		return os.ErrClosed
	}
	for {
		if err := f(w.socket); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// send sends one message with copies of the files. It waits at most patience for
// room in the socket.
func (w *wire) send(text []byte, files []int, patience time.Duration) error {
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	w.sendMu.Lock()
	defer w.sendMu.Unlock()
	return w.do(func(socket int) error {
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

// receive waits for one message and returns it with its descriptors, which the
// caller owns. The text is valid until the next message. A message that is too
// long is an error.
func (w *wire) receive() (text []byte, files []int, err error) {
	waited := w.direct.Wait(func() bool {
		text, files, err = w.next()
		return !errors.Is(err, unix.EAGAIN)
	})
	if waited != nil {
		return nil, nil, w.why(waited)
	}
	return text, files, err
}

// listen calls hear with each message, until hear or the connection fails. While
// another goroutine has the turn, listen receives nothing.
func (w *wire) listen(hear func(text []byte, files []int) error) error {
	for {
		var text []byte
		var files []int
		var err error
		waited := w.steady.Wait(func() bool {
			if !w.turn.TryLock() {
				return false // endTurn wakes it
			}
			if text, files, err = w.next(); errors.Is(err, unix.EAGAIN) {
				w.turn.Unlock()
				return false
			}
			return true
		})
		if waited != nil {
			return w.why(waited)
		}
		if err == nil {
			err = hear(text, files)
		}
		w.turn.Unlock()
		if err != nil {
			return err
		}
	}
}

// takeTurn reports whether the caller may receive now, until endTurn.
func (w *wire) takeTurn() bool {
	if !w.turn.TryLock() {
		return false
	}
	_ = w.steady.Mask() // it fails only on a closed connection, and then receive fails too
	return true
}

// endTurn lets listen continue.
func (w *wire) endTurn() {
	w.turn.Unlock() // before it is woken, or listen could not take the turn
	_ = w.steady.Unmask()
}

// next returns the next message, or EAGAIN if none has arrived.
func (w *wire) next() (text []byte, files []int, err error) {
	var rights [64]byte
	n, rightsN, flags := 0, 0, 0
	get := func(socket int) error {
		n, rightsN, flags, err = rawsys.Recvmsg(socket, w.text, rights[:])
		return err
	}
	if err = w.do(get); errors.Is(err, unix.ECONNRESET) {
		// The init ended without reading a message of ours. The kernel reports that
		// once, before it delivers what the init had sent.
		err = w.do(get)
	}
	if err != nil {
		return nil, nil, err
	}
	files, err = boxinit.Rights(rights[:rightsN])
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		boxinit.CloseAll(files)
		return nil, nil, fmt.Errorf("message of the init over %d bytes", boxinit.MaxReply)
	}
	return w.text[:n], files, err
}

// expect sets the deadline of the next receive; the zero time means none.
func (w *wire) expect(deadline time.Time) error { return w.direct.SetDeadline(deadline) }

// fail closes the connection; listen returns the error.
func (w *wire) fail(err error) {
	w.mu.Lock()
	w.failed = cmp.Or(w.failed, err)
	w.mu.Unlock()
	_ = w.Close()
}

// why returns the error that the connection was closed with, or else found.
func (w *wire) why(found error) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return cmp.Or(w.failed, found)
}

// Close ends the connection, and with it the init. It may be called twice.
func (w *wire) Close() error {
	err := errors.Join(w.steady.Close(), w.direct.Close())                            // ends listen and receive
	_ = w.do(func(socket int) error { return unix.Shutdown(socket, unix.SHUT_RDWR) }) // ends send
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.socket >= 0 {
		unix.Close(w.socket)
		w.socket = -1
	}
	return err
}
