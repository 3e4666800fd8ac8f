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

// entrance is a listener of a box that can report whether connections wait in its queue.
// The kernel completes a connection before it is accepted, so a command can connect and end
// before the door knows of the connection.
type entrance struct {
	*net.TCPListener
	file *os.File // the same socket: a listener of package net has no way to wait for its queue
	raw  syscall.RawConn
	idle atomic.Bool // whether the queue was empty, and every later connection is still in it
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

// Close ends Accept and drops the connections in the queue.
func (e *entrance) Close() error {
	return errors.Join(e.TCPListener.Close(), e.file.Close())
}

// Accept takes a connection from the queue. The entrance is busy from before
// Accept takes it until the next call of Accept, and the caller counts the
// connection as undecided before that call. So a connection is always either
// pending or counted.
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

// pending reports whether a connection waits, or was accepted just now.
func (e *entrance) pending() bool {
	waits := false
	if err := e.raw.Control(func(fd uintptr) { waits = queued(fd) }); err != nil {
		return false // the entrance is closed
	}
	return waits || !e.idle.Load() // in this order: see Accept
}

// queued reports whether connections wait to be accepted. For a listening socket
// the kernel gives their number as tcpi_unacked (tcp_get_info in
// net/ipv4/tcp.c).
func queued(fd uintptr) bool {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	return err != nil || info.Unacked > 0
}

// settling bounds the wait for the door's decisions about connections. The decisions take
// this long only while names are looked up or the host is busy.
const settling = time.Second

// settle waits until the door has decided about all connections made so far, so
// that the result of a command lists the refused ones.
func (d *door) settle() {
	d.mu.Lock()
	entrances := slices.Clone(d.files)
	d.mu.Unlock()
	undecided := func() bool { return slices.ContainsFunc(entrances, (*entrance).pending) || d.Undecided() > 0 }
	for deadline := time.Now().Add(settling); undecided() && time.Now().Before(deadline); {
		<-time.After(100 * time.Microsecond)
	}
}
