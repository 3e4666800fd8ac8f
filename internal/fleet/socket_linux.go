package fleet

import (
	"errors"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// lowUnsent bounds how many bytes of a link wait in the kernel because it cannot send them yet:
// poll(2) finds room while there are fewer than half as many. The kernel sends in order, so a
// small answer waits for all of them; answers whose bytes are not in the kernel yet are sent in
// turn, see [turns]. A write without poll is not bounded by it: the kernel fills a buffer of up
// to 64 KiB before it looks (ip-sysctl, tcp_notsent_lowat; measured on Linux 6.18).
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

// maxUrgent is the size of a write that does not wait for room: a ping, a window update or the
// end of TLS, with the rest of its record.
const maxUrgent = 64

// socket is the TCP connection of a link. Its Write waits until little is unsent in the kernel,
// see [lowUnsent], and again after each [maxWrite] bytes. TLS must be its only writer: two large
// writes at the same time would mix.
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
		part := p[n:min(len(p), n+maxWrite)]
		err = s.raw.Write(func(fd uintptr) (done bool) {
			if len(part) > maxUrgent && !hasRoom(int(fd)) {
				return false // the runtime calls this again when there is room
			}
			m, failed = sendNow(int(fd), part)
			return !errors.Is(failed, unix.EAGAIN)
		})
		if err == nil && failed != nil {
			err = &net.OpError{Op: "write", Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: failed}
		}
		n += m
	}
	return n, err
}

// hasRoom reports whether poll(2) finds a socket writable. If not, the kernel reports to
// epoll(7) when it is. An error of poll itself is as good as room: the write is not lost.
func hasRoom(fd int) bool {
	look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	ready, err := unix.Poll(look, 0)
	return ready > 0 || err != nil
}

// sendNow writes to a socket without waiting.
func sendNow(fd int, p []byte) (n int, err error) {
	for {
		n, err = unix.SendmsgN(fd, p, nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.ErrShortWrite
		default:
			return n, nil
		}
	}
}
