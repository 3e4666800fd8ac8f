package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/boxinit"
)

// Size is the size of a terminal, in characters.
type Size struct{ Rows, Columns int }

// openTerminal makes a pseudo-terminal (pty(7)) for a command of the box. It returns our
// end and the command's end.
//
// The pair belongs to the host, so the command's terminal has no name in the box: a process
// can only inherit it, not open it, and input that is pushed into the terminal ends with
// the terminal. A command that has the box alone gets a pair of the box's own /dev/pts:
// then ttyname(3) finds the name, and a program can open the terminal again. All commands
// of a box have the same user, and with a name each of them could read what is typed for
// another.
func openTerminal(b *Box, alone bool, size Size) (*os.File, int, error) {
	master, err := openMultiplexer(b, alone)
	if err != nil {
		return nil, -1, fmt.Errorf("open terminal: %w", err)
	}
	fail := func(what string, err error) (*os.File, int, error) {
		unix.Close(master)
		return nil, -1, fmt.Errorf("%s terminal: %w", what, err)
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return fail("unlock", err)
	}
	if err := setSize(master, size); err != nil {
		return fail("size", err)
	}
	// The terminal is opened by descriptor and not by name: another /dev/pts may be mounted
	// here (ioctl_tty(2), TIOCGPTPEER).
	slave, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return fail("open the other end of a", errno)
	}
	// The group is changed as well: the box's file system knows no group of the host, and
	// refuses every change of an inode that has a group of the host.
	if err := unix.Fchown(int(slave), b.means.uid, terminalGroup(b.means.uid, alone)); err != nil {
		boxinit.CloseAll([]int{int(slave)})
		return fail("hand out", err)
	}
	return os.NewFile(uintptr(master), "terminal"), int(slave), nil
}

// terminalGroup returns the group for a terminal: the group of the box's user, which has
// the same number as the user, or -1 to keep the present group.
func terminalGroup(uid int, alone bool) int {
	if alone && uid != os.Geteuid() {
		return uid
	}
	return -1
}

// openMultiplexer opens /dev/ptmx of the box if own is set, and otherwise of the host.
func openMultiplexer(b *Box, own bool) (int, error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC | unix.O_NONBLOCK
	if !own {
		return unix.Open("/dev/ptmx", flags, 0)
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", b.init.process.Pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	master, err := openat2(root, "dev/pts/ptmx", &unix.OpenHow{
		Flags: flags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, err
	}
	// No command can mount anything at /dev/pts of the box, but a compromised init could.
	var at unix.Statfs_t
	if err = unix.Fstatfs(master, &at); err == nil && at.Type != unix.DEVPTS_SUPER_MAGIC {
		err = fmt.Errorf("/dev/pts of the box: %w", unix.ENODEV)
	}
	if err != nil {
		unix.Close(master)
		return -1, err
	}
	return master, nil
}

func setSize(master int, size Size) error {
	return unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(size.Rows), Col: uint16(size.Columns)})
}
