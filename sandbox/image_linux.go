package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/boxinit"
)

// image is what inits are started from: a page in memory that nobody can change (a command
// that opened /proc/1/exe for writing could otherwise take over the next box,
// CVE-2019-5736), and the program that the page maps.
type image struct {
	path string // path of the page, for this process
	page *os.File
	exe  *os.File
}

func newImage() (*image, error) {
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("open own program: %w", err)
	}
	text, err := boxinit.Image(exe)
	if err != nil {
		exe.Close()
		return nil, err
	}
	low, err := sealed(boxinit.InitName, text)
	if err != nil {
		exe.Close()
		return nil, err
	}
	// A child gives other files the lowest numbers before it executes this one.
	const above = 16
	fd, err := unix.FcntlInt(uintptr(low), unix.F_DUPFD_CLOEXEC, above)
	unix.Close(low)
	if err != nil {
		exe.Close()
		return nil, fmt.Errorf("keep %s: %w", boxinit.InitName, err)
	}
	return &image{fmt.Sprintf("/proc/self/fd/%d", fd), os.NewFile(uintptr(fd), boxinit.InitName), exe}, nil
}

func (i *image) close() {
	i.page.Close()
	i.exe.Close()
}

// sealed returns a file in memory with that content, which nobody can change
// (memfd_create(2)).
func sealed(name string, content []byte) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, fmt.Errorf("make %s: %w", name, err)
	}
	for rest, at := content, int64(0); len(rest) > 0; {
		n, err := unix.Pwrite(fd, rest, at)
		if err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("fill %s: %w", name, err)
		}
		rest, at = rest[n:], at+int64(n)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("seal %s: %w", name, err)
	}
	return fd, nil
}
