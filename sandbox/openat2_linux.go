package sandbox

import (
	"errors"

	"golang.org/x/sys/unix"
)

// maxRaced is how often a lookup is repeated at most. A box that renames its files in a loop can
// disturb each of them.
const maxRaced = 1000

// openat2 is openat2(2). With RESOLVE_BENEATH or RESOLVE_IN_ROOT, the kernel fails with
// EAGAIN at a ".." if a process anywhere on the host renames or mounts something meanwhile.
// The call is then repeated.
func openat2(dir int, name string, how *unix.OpenHow) (fd int, err error) {
	for range maxRaced {
		fd, err = unix.Openat2(dir, name, how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return fd, err
}
