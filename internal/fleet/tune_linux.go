package fleet

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// lowUnsent is the number of bytes of a link that the kernel cannot send yet, below which it
// accepts more. The kernel sends in order, so a small answer waits for all of them; answers
// whose bytes are not in the kernel yet are sent in turn, see [interleaved]. It is not a bound:
// the kernel fills its last buffer before it looks, with up to 64 KiB on Linux 6.18
// (ip-sysctl, tcp_notsent_lowat).
const lowUnsent = 8 << 10

// minResend is the time, in microseconds, that the kernel waits for an acknowledgement at
// least, in addition to a round trip, before it sends a packet again. With the default of
// 200 ms, one lost packet costs a call three round trips of a long link. The other end may
// delay its acknowledgement by 40 ms or more; a kernel that knows the option delays it by
// less than its own minResend.
const minResend = 50_000

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
