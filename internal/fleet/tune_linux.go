package fleet

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// maxUnsent is how much of a link the kernel keeps that it cannot send yet. It sends in order:
// a small answer waits for all of that, and on a slow link it would wait for seconds. The data
// that are not in the kernel yet take turns, see the priorities of HTTP/2.
const maxUnsent = 32 << 10

// tune prepares the socket of a link. A kernel that does not know the option goes without.
func tune(c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent)
	})
}
