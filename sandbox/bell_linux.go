package sandbox

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A bell is what the runtime waits for in the place of another file: an epoll
// of its own that says when there is something to be read (epoll(7)). For the
// file itself the runtime would wait in both directions; and a bell can be
// muted, so that a message wakes one of those who wait for it and not all.
type bell struct {
	file *os.File
	raw  syscall.RawConn // of file
	of   int
}

// newBell makes one that rings. The caller closes it before what it is of.
func newBell(of int) (*bell, error) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if err = unix.SetNonblock(poll, true); err == nil { // so that the runtime waits for it
		err = unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, of, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET})
	}
	b := &bell{file: os.NewFile(uintptr(poll), "bell"), of: of}
	if err == nil {
		b.raw, err = b.file.SyscallConn()
	}
	if err != nil {
		b.file.Close()
		return nil, fmt.Errorf("epoll_ctl: %w", err)
	}
	return b, nil
}

// await calls done until it reports true: at once, and whenever the bell has
// rung. The error is that of a closed bell, or of its deadline.
func (b *bell) await(done func() bool) error {
	return b.raw.Read(func(uintptr) bool { return done() })
}

// mute keeps the bell from ringing until it is set, but for a file that was hung
// up.
func (b *bell) mute() error {
	return b.control(func(poll int) error {
		return unix.EpollCtl(poll, unix.EPOLL_CTL_MOD, b.of, &unix.EpollEvent{Events: unix.EPOLLET})
	})
}

// set makes a muted bell ring again, also for data that has already arrived.
func (b *bell) set() error {
	return b.control(func(poll int) error {
		// An event that the bell rang for last may still be in epoll's ready
		// list, and for an event in that list ep_modify wakes nobody. This wait
		// takes it out of the list; EPOLLET keeps it out.
		var rung [1]unix.EpollEvent
		if _, err := now(unix.SYS_EPOLL_PWAIT, poll, unsafe.Pointer(&rung), uintptr(len(rung))); err != nil {
			return err
		}
		return unix.EpollCtl(poll, unix.EPOLL_CTL_MOD, b.of, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET})
	})
}

func (b *bell) control(f func(poll int) error) error {
	var err error
	return errors.Join(b.raw.Control(func(fd uintptr) { err = f(int(fd)) }), err)
}

// Close ends an await.
func (b *bell) Close() error { return b.file.Close() }
