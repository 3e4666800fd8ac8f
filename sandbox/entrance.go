package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// entrance is a listener of a box of which can be told whether it has
// connections that nobody has looked at. The kernel makes a connection before
// anybody accepts it, so that a command can have been refused and be over
// before the door knows of it.
type entrance struct {
	*net.TCPListener
	file *os.File // the same socket: a listener of package net lets nobody wait for its queue
	raw  syscall.RawConn
	idle atomic.Bool // the queue was empty, and what comes into it is seen there
}

func newEntrance(l net.Listener) (*entrance, error) {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("listen for connections of the box: on a %T", l)
	}
	file, err := tcp.File()
	if err != nil {
		return nil, err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	return &entrance{TCPListener: tcp, file: file, raw: raw}, nil
}

// Close ends Accept, and what waits in the queue.
func (e *entrance) Close() error {
	return errors.Join(e.TCPListener.Close(), e.file.Close())
}

// Accept takes a connection from the queue. From before that until the next
// Accept the entrance is not idle: who has taken it counts it before.
func (e *entrance) Accept() (net.Conn, error) {
	if err := e.raw.Read(func(fd uintptr) bool {
		e.idle.Store(false)
		if queued(fd) {
			return true
		}
		e.idle.Store(true)
		return false
	}); err != nil {
		return nil, net.ErrClosed
	}
	return e.TCPListener.Accept()
}

// pending reports whether a connection waits, or was taken just now.
func (e *entrance) pending() bool {
	waits := false
	if err := e.raw.Control(func(fd uintptr) { waits = queued(fd) }); err != nil {
		return false // it is closed
	}
	return waits || !e.idle.Load() // in this order: see Accept
}

// queued reports whether connections wait to be accepted, which of a listening
// socket is tcpi_unacked (tcp_get_info in the kernel's net/ipv4/tcp.c).
func queued(fd uintptr) bool {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	return err != nil || info.Unacked > 0
}

// settling bounds the wait for what the door decides about connections. It
// takes so long only where names are being looked up, or the host is busy.
const settling = time.Second

// settle waits until the door has decided about the connections that were made
// before, so that the result of a command tells which were refused.
func (d *door) settle() {
	d.mu.Lock()
	entrances := slices.Clone(d.files)
	d.mu.Unlock()
	undecided := func() bool { return slices.ContainsFunc(entrances, (*entrance).pending) || d.Undecided() > 0 }
	for deadline := time.Now().Add(settling); undecided() && time.Now().Before(deadline); {
		<-time.After(100 * time.Microsecond)
	}
}
