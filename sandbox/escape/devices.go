package escape

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// harmless are the devices that every program may expect.
var harmless = []string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/console",
}

// devices returns the probes for the ways to hardware, virtual machines and other
// terminals.
func devices() []Probe {
	return []Probe{
		{ID: "D01", Name: "open the kernel's memory, log, disks, tunnels or virtual machines", Root: true, try: opens(unix.O_RDONLY,
			"/dev/mem", "/dev/kmsg", "/dev/port", "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/loop-control", "/dev/vhost-net", "/dev/vhost-vsock")},
		{ID: "D02", Name: "read the machine's shared memory", try: func(f *Facts) (string, error) {
			return reads(f.Host.Shm, f.Host.Token)
		}},
		// The machine itself may lack these links, if it has no udev.
		{ID: "D03", Name: "use the devices that programs expect", Works: true, where: present("/dev/stdout"), try: func(*Facts) (string, error) {
			return script(`set -e
echo x > /dev/null
test "$(head -c 4 /dev/zero | wc -c)" = 4
test "$(head -c 4 /dev/urandom | wc -c)" = 4
! { echo x > /dev/full; } 2> /dev/null
test "$(echo a > /dev/stdout)" = a
test "$(echo b 2>&1 > /dev/stderr)" = b
test "$(cat <(echo c))" = c
test "$(echo d | cat /dev/stdin)" = d
test "$(echo e | cat /dev/fd/0)" = e
echo through`)
		}},
		{ID: "D04", Name: "open the terminal of the user who runs belljar", terminal: true, try: opens(unix.O_RDWR, "/dev/tty")},
		{ID: "D05", Name: "see a device of the machine", try: foreignDevice},
		{ID: "D06", Name: "make a device among its own and use it", Root: true, try: anyOf(
			// On some systems, devices in /tmp do not work.
			makesDevice(os.TempDir()), makesDevice("/dev"),
		)},
		{ID: "D07", Name: "open the machine's console or keyboard", Root: true, try: opens(unix.O_RDONLY,
			"/dev/tty0", "/dev/tty1", "/dev/vcs", "/dev/ttyS0", "/dev/input/event0", "/dev/hwrng")},
		{ID: "D08", Name: "open a terminal of somebody else", try: func(f *Facts) (string, error) {
			return f.Host.Terminal, open(f.Host.Terminal, unix.O_RDWR)
		}},
		{ID: "D09", Name: "make a terminal of its own", Works: true, try: func(*Facts) (string, error) {
			fd, name, err := newTerminal()
			if err != nil {
				return "", err
			}
			defer unix.Close(fd)
			return name, open(name, unix.O_RDWR)
		}},
	}
}

// makesDevice makes /dev/zero under another name. If that works, any device does.
func makesDevice(dir string) act {
	return func(*Facts) (string, error) {
		path := filepath.Join(dir, "belljar-probe-device")
		if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); err != nil {
			return "", fmt.Errorf("mknod in %s: %w", dir, err)
		}
		defer os.Remove(path)
		return readsAny(path)(nil)
	}
}

// foreignDevice looks for any device that is not harmless. It opens none, because opening a
// watchdog starts it.
func foreignDevice(*Facts) (string, error) {
	found := ""
	err := filepath.WalkDir("/dev", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // a directory that cannot be listed shows no device
		case slices.Contains(harmless, path):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type()&fs.ModeDevice != 0:
			found = path
			return fs.SkipAll
		}
		return nil
	})
	if err == nil && found == "" {
		err = errors.New("/dev: nothing but what programs expect")
	}
	if err != nil {
		return "", fmt.Errorf("look for devices: %w", err)
	}
	return found, nil
}
