package fleet

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// maxUnsent is the number of bytes of a link that the kernel keeps although it cannot send
// them yet. The kernel sends in order: a small answer waits for all of them, and on a slow link
// that would take seconds. The answers whose bytes are not in the kernel yet are sent in turn,
// see [interleaved].
const maxUnsent = 8 << 10

// minResend is the shortest time, in microseconds, after which the kernel sends a lost packet
// again. It adds this time to the round trip; its default of 200 ms makes one lost packet cost
// a call three round trips of a long link. A shorter time than the 40 ms by which the other end
// may delay its acknowledgement would send packets twice that were not lost.
const minResend = 50_000

// tune prepares the socket of a link (tcp(7)). A kernel that does not know one of the options
// keeps its default: TCP_RTO_MIN_US needs Linux 6.15.
func tune(c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent)
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MIN_US, minResend)
	})
}
