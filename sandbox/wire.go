package sandbox

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/boxinit"
)

// wire is the supervisor's end of the connection to an init. It is a socket of
// packets, whose borders neither side has to find.
//
// The runtime would wait for its socket in both directions, and be woken each
// time the init has read something: another thread, while a command starts. So
// what the runtime waits for is an epoll that looks at one direction
// (epoll(7), "readable" if an event is ready).
//
// One goroutine at a time may receive; all else is safe for concurrent use.
type wire struct {
	ready *os.File        // readable if the socket is
	wait  syscall.RawConn // of ready

	mu     sync.RWMutex // held for writing to close
	socket int          // -1 once closed
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
func wireOf(socket int) (*wire, error) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		unix.Close(socket)
		return nil, fmt.Errorf("make connection to init: %w", err)
	}
	if err = unix.SetNonblock(poll, true); err == nil { // so that the runtime waits for it
		err = unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, socket, &unix.EpollEvent{Events: unix.EPOLLIN})
	}
	w := &wire{ready: os.NewFile(uintptr(poll), "connection to init"), socket: socket}
	if err == nil {
		w.wait, err = w.ready.SyscallConn()
	}
	if err != nil {
		_ = w.Close()
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
		const flags = unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT
		err := unix.Sendmsg(socket, text, rights, nil, flags)
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
		return unix.Sendmsg(socket, text, rights, nil, flags)
	})
}

// receive reads one message into text and the descriptors that came with it,
// which are the caller's. A message that does not fit is an error.
func (w *wire) receive(text []byte) (n int, files []int, err error) {
	var oob [64]byte
	oobn, flags := 0, 0
	waited := w.wait.Read(func(uintptr) bool {
		err = w.do(func(socket int) error {
			var err error
			n, oobn, flags, _, err = unix.Recvmsg(socket, text, oob[:], unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
			return err
		})
		return !errors.Is(err, unix.EAGAIN)
	})
	if waited != nil {
		return 0, nil, waited
	}
	if err != nil {
		return 0, nil, err
	}
	files, err = boxinit.Rights(oob[:oobn])
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		boxinit.CloseAll(files)
		return 0, nil, fmt.Errorf("message of the init over %d bytes", len(text)-1)
	}
	return n, files, err
}

// expect is until when the next receive waits; zero is for ever.
func (w *wire) expect(deadline time.Time) error { return w.ready.SetReadDeadline(deadline) }

// Close ends the connection, and with it the init. Twice is fine.
func (w *wire) Close() error {
	err := w.ready.Close()                                                            // ends a receive
	_ = w.do(func(socket int) error { return unix.Shutdown(socket, unix.SHUT_RDWR) }) // and a send
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.socket >= 0 {
		unix.Close(w.socket)
		w.socket = -1
	}
	return err
}
