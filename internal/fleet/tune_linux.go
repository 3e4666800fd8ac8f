package fleet

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// maxUnsent is how much of a link the kernel keeps that it cannot send yet. It sends in order:
// a small answer waits for all of that, and on a slow link it would wait for seconds. What is
// not in the kernel takes turns, see the priorities of HTTP/2.
const maxUnsent = 32 << 10

// Times of TCP on a link, in microseconds. A call is often one packet, and no later one shows that
// it was lost: the kernel sends it again after the round trip and leastRetransmit, which is 200 ms
// elsewhere. It must be longer than an acknowledgement may be delayed, or packets that came are
// sent twice.
const (
	leastRetransmit = 50_000
	mostDelayedAck  = 20_000
)

// tune prepares the socket of a link. A kernel that does not know an option goes without: those
// of time are of Linux 6.15.
func tune(c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent)
		if unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_DELACK_MAX_US, mostDelayedAck) == nil {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MIN_US, leastRetransmit)
		}
	})
}
