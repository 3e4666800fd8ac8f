package fleet

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lowUnsent is the TCP_NOTSENT_LOWAT of a link, in bytes. poll(2) finds room while the kernel
// has fewer than half as many that it cannot send yet, so at most that and one [maxWrite] wait
// there. The kernel sends in order, so a small answer waits for all of them; answers whose bytes
// are not in the kernel yet are sent in turn, see [turns]. A write without poll would not keep
// to it: the kernel fills a buffer of up to 64 KiB before it looks (ip-sysctl,
// tcp_notsent_lowat; measured on Linux 6.18).
const lowUnsent = 8 << 10

// minResend is the shortest time, in microseconds, beyond a round trip that the kernel waits for
// an acknowledgement before it sends a packet again. With the default of 200 ms, one lost packet
// costs a call three round trips of a long link. The other end may delay its acknowledgement by
// 40 ms or more; a kernel that has TCP_RTO_MIN_US delays it by less than the value at its end.
const minResend = 50_000

// maxWrite is how many bytes are written after one look at the socket: one record of TLS 1.3
// (RFC 8446, 5.2).
const maxWrite = 5 + 16<<10 + 256

// maxUrgent is the largest size, in bytes, of a write that does not wait for room: a record of
// TLS with a ping or a window update, or the close_notify. The kernel accepts some 28 KiB of
// them when it has no room.
const maxUrgent = 64

// socket is the TCP connection of a link. Its Write waits until little is unsent in the kernel,
// see [lowUnsent], and again after each [maxWrite] bytes. TLS must be its only writer: two large
// writes at the same time would mix.
type socket struct {
	net.Conn

	raw syscall.RawConn
}

// newSocket sets the options of a link's socket. It returns c itself if c is closed or is not a
// socket.
func newSocket(c net.Conn) net.Conn {
	s, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := s.SyscallConn()
	if err != nil || tune(raw) != nil {
		return c
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

// owes reports whether the other end has not acknowledged everything that the kernel has sent
// (tcp(7), TCP_INFO).
func (s *socket) owes() bool {
	i := s.info()
	return i != nil && i.Unacked > 0
}

// trip returns the shortest round trip of the last minutes (ip-sysctl, tcp_min_rtt_wlen); 0 if
// the connection is closed. The hello must have been exchanged: before the first round trip, the
// kernel returns the largest number. The mean would contain the 40 ms by which a kernel may delay an
// acknowledgement.
func (s *socket) trip() time.Duration {
	i := s.info()
	if i == nil {
		return 0
	}
	return time.Duration(i.Min_rtt) * time.Microsecond
}

// info returns what the kernel knows about the connection; nil if it is closed.
func (s *socket) info() (i *unix.TCPInfo) {
	_ = s.raw.Control(func(fd uintptr) { i, _ = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	return i
}

// hasRoom reports whether poll(2) finds a socket writable. If not, the kernel reports to
// epoll(7) when it is. If poll fails, hasRoom returns true, so the write goes on without it.
func hasRoom(fd int) bool {
	look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	ready, err := unix.Poll(look, 0)
	return ready > 0 || err != nil
}

// sendNow writes to a socket, which the runtime has made non-blocking.
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
