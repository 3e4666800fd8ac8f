package fleet

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// maxUnsent is how many unsent bytes of a link the kernel buffers. It sends them in order:
// a small answer waits for all of them, which would take seconds on a slow link. Data that
// are not in the kernel yet take turns, see the priorities of HTTP/2.
const maxUnsent = 32 << 10

// tune sets the options of a link's socket. It ignores an option that the kernel does not
// know.
func tune(c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent)
	})
}
