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
)

// wire is the supervisor's end of the connection to an init. It is a socket of
// packets, whose borders neither side has to find.
//
// Somebody listens all the time. Who waits for one answer may take the turn
// meanwhile and receive it himself: the thread that the answer wakes goes on
// with it then, and wakes no other.
//
// One goroutine at a time may listen, and one receive: who has taken the turn, or
// who is alone before anybody listens. All else is safe for concurrent use.
type wire struct {
	steady *bell // of who listens
	direct *bell // of who has taken the turn

	turn sync.Mutex // to receive, until what was said is dealt with
	text []byte     // of the last message, for whose turn it is

	mu     sync.RWMutex // held for writing to close
	socket int          // -1 once closed
	failed error        // why it was closed, if it was for a reason
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

// wireOf is a wire over a socket, which is closed with it, and closed if that
// fails.
func wireOf(socket int) (w *wire, err error) {
	w = &wire{socket: socket, text: make([]byte, boxinit.MaxReply+1)}
	if w.steady, err = newBell(socket); err != nil {
		unix.Close(socket)
		return nil, fmt.Errorf("make connection to init: %w", err)
	}
	if w.direct, err = newBell(socket); err != nil {
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

// send sends one message, with copies of the files, and waits so long for room.
func (w *wire) send(text []byte, files []int, patience time.Duration) error {
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	w.sendMu.Lock()
	defer w.sendMu.Unlock()
	return w.do(func(socket int) error {
		err := sendNow(socket, text, rights)
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
		return sendNow(socket, text, rights)
	})
}

// receive waits for one message and gives it with the descriptors that came
// with it, which are the caller's. The text is good until the next one. A
// message that does not fit is an error.
func (w *wire) receive() (text []byte, files []int, err error) {
	waited := w.direct.await(func() bool {
		text, files, err = w.next()
		return !errors.Is(err, unix.EAGAIN)
	})
	if waited != nil {
		return nil, nil, w.why(waited)
	}
	return text, files, err
}

// listen hands one message after the other to hear, until that has an error, or
// the connection has. While it is somebody else's turn it hears nothing.
func (w *wire) listen(hear func(text []byte, files []int) error) error {
	for {
		var text []byte
		var files []int
		var err error
		waited := w.steady.await(func() bool {
			if !w.turn.TryLock() {
				return false // endTurn rings
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
	_ = w.steady.mute() // of a closed one: what is received next says so
	return true
}

// endTurn lets who listens go on.
func (w *wire) endTurn() {
	w.turn.Unlock() // before it rings, or nobody would come
	_ = w.steady.set()
}

// next takes the message that is there; EAGAIN where there is none.
func (w *wire) next() (text []byte, files []int, err error) {
	var rights [64]byte
	n, rightsN, flags := 0, 0, 0
	get := func(socket int) error {
		n, rightsN, flags, err = receiveNow(socket, w.text, rights[:])
		return err
	}
	if err = w.do(get); errors.Is(err, unix.ECONNRESET) {
		// The init ended and left something of ours unread. The kernel tells that
		// once, before it gives what the init had said.
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

// expect is until when the next receive waits; zero is for ever.
func (w *wire) expect(deadline time.Time) error { return w.direct.file.SetReadDeadline(deadline) }

// fail closes the connection for a reason, which who listens is told.
func (w *wire) fail(err error) {
	w.mu.Lock()
	w.failed = cmp.Or(w.failed, err)
	w.mu.Unlock()
	_ = w.Close()
}

// why is the reason that it was closed for, or what was found.
func (w *wire) why(found error) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return cmp.Or(w.failed, found)
}

// Close ends the connection, and with it the init. Twice is fine.
func (w *wire) Close() error {
	err := errors.Join(w.steady.Close(), w.direct.Close())                            // ends what waits for a message
	_ = w.do(func(socket int) error { return unix.Shutdown(socket, unix.SHUT_RDWR) }) // and a send
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.socket >= 0 {
		unix.Close(w.socket)
		w.socket = -1
	}
	return err
}
