package fleet

import (
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// lowUnsent is the number of bytes of a link that the kernel cannot send yet, below which it
// accepts more. The kernel sends in order, so a small answer waits for all of them; answers
// whose bytes are not in the kernel yet are sent in turn, see [turns]. The option by itself is
// not a bound: a write that is under way fills a buffer of up to 64 KiB before the kernel looks
// again (ip-sysctl, tcp_notsent_lowat; measured on Linux 6.18).
const lowUnsent = 8 << 10

// minResend is the time, in microseconds, that the kernel waits for an acknowledgement at
// least, in addition to a round trip, before it sends a packet again. With the default of
// 200 ms, one lost packet costs a call three round trips of a long link. The other end may
// delay its acknowledgement by 40 ms or more; a kernel that knows the option delays it by
// less than its own minResend.
const minResend = 50_000

// maxWrite is how many bytes are written after one look at the socket: one record of TLS 1.3
// (RFC 8446, 5.2).
const maxWrite = 5 + 16<<10 + 256

// socket is the TCP connection of a link. Its Write waits until the kernel cannot send less
// than [lowUnsent], and looks again after each [maxWrite] bytes. Everything else is as for the
// connection in it.
type socket struct {
	net.Conn

	raw syscall.RawConn
}

// newSocket sets the options of a link's socket. It returns c itself if c is not a socket.
func newSocket(c net.Conn) net.Conn {
	s, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := s.SyscallConn()
	if err != nil || tune(raw) != nil {
		return c // it is closed
	}
	return &socket{Conn: c, raw: raw}
}

// tune sets the options of a link's socket. An option that the kernel does not know keeps its
// default: TCP_RTO_MIN_US needs Linux 6.15. A shorter time that the operator has set for all
// connections stays (net.ipv4.tcp_rto_min_us).
func tune(c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, lowUnsent)
		if now, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MIN_US); err == nil && now > minResend {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MIN_US, minResend)
		}
	})
}

// Write writes p, see [socket].
func (s *socket) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		var failed error
		err = s.raw.Write(func(fd uintptr) (done bool) {
			m, failed = writeIfRoom(int(fd), p[n:min(len(p), n+maxWrite)])
			return failed != unix.EAGAIN // otherwise, the runtime calls this again when there is room
		})
		if err == nil {
			err = failed
		}
		n += m
	}
	return n, err
}

// writeIfRoom writes to a socket if poll(2) finds it writable, and returns EAGAIN if not. If
// poll finds no room, the kernel reports to epoll(7) when there is.
func writeIfRoom(fd int, p []byte) (n int, err error) {
	look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	for err = unix.EINTR; err == unix.EINTR; {
		var ready int
		if ready, err = unix.Poll(look, 0); err != nil {
			continue
		}
		if ready == 0 {
			return 0, unix.EAGAIN
		}
		n, err = unix.SendmsgN(fd, p, nil, nil, unix.MSG_NOSIGNAL)
	}
	switch {
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.ErrShortWrite
	}
	return n, nil
}
