package rawsys

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Readiness is what the runtime waits for in place of files: an epoll instance of its
// own that reports when there is something to read (epoll(7)). For a file itself the
// runtime would wait in both directions. A Readiness can also be masked, so that a
// message wakes one of the goroutines that wait for it and not all.
//
// Its methods are safe for concurrent use, but only one goroutine at a time may Wait.
type Readiness struct {
	file *os.File
	raw  syscall.RawConn // raw connection of file
	of   int
}

// NewReadiness returns the readiness of a file. The caller must Close it before the
// file.
func NewReadiness(of int) (*Readiness, error) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if err = unix.SetNonblock(poll, true); err == nil { // so that the runtime waits for it
		err = unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, of, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(of)})
	}
	r := &Readiness{file: os.NewFile(uintptr(poll), "epoll"), of: of}
	if err == nil {
		r.raw, err = r.file.SyscallConn()
	}
	if err != nil {
		r.file.Close()
		return nil, fmt.Errorf("epoll_ctl: %w", err)
	}
	return r, nil
}

// Wait calls done until it reports true: immediately, and each time that there is something
// to read. The error is that of a closed Readiness, or of its deadline.
func (r *Readiness) Wait(done func() bool) error {
	return r.raw.Read(func(uintptr) bool { return done() })
}

// SetDeadline sets the deadline of Wait; the zero time means none.
func (r *Readiness) SetDeadline(at time.Time) error { return r.file.SetReadDeadline(at) }

// Mask keeps Wait from calling done until Unmask, except for a file that was hung up.
func (r *Readiness) Mask() error {
	return r.control(func(poll int) error {
		return unix.EpollCtl(poll, unix.EPOLL_CTL_MOD, r.of, &unix.EpollEvent{Events: unix.EPOLLET, Fd: int32(r.of)})
	})
}

// Unmask ends Mask, also for data that has already arrived.
func (r *Readiness) Unmask() error {
	return r.control(func(poll int) error {
		// The last event may still be in epoll's ready list, and for an event in that
		// list ep_modify wakes nobody. This wait takes it out of the list; EPOLLET
		// keeps it out.
		var last [1]unix.EpollEvent
		if _, err := epollWait(poll, last[:]); err != nil {
			return err
		}
		return unix.EpollCtl(poll, unix.EPOLL_CTL_MOD, r.of, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(r.of)})
	})
}

// Add makes Wait also call done when another file can be read. The caller must Remove or
// close that file.
func (r *Readiness) Add(fd int) error {
	return r.control(func(poll int) error {
		return unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)})
	})
}

// Remove ends Add.
func (r *Readiness) Remove(fd int) error {
	return r.control(func(poll int) error { return unix.EpollCtl(poll, unix.EPOLL_CTL_DEL, fd, nil) })
}

// Other reports whether one of the files that were added can be read since the last
// call of Other.
func (r *Readiness) Other() (some bool) {
	_ = r.control(func(poll int) error {
		var events [4]unix.EpollEvent
		n, err := epollWait(poll, events[:])
		for _, e := range events[:max(n, 0)] {
			some = some || int(e.Fd) != r.of
		}
		return err
	})
	return some
}

func (r *Readiness) control(f func(poll int) error) error {
	var err error
	return errors.Join(r.raw.Control(func(fd uintptr) { err = f(int(fd)) }), err)
}

// Close ends Wait.
func (r *Readiness) Close() error { return r.file.Close() }
