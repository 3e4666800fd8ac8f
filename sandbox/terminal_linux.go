package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/boxinit"
)

// Size is that of a terminal, in characters.
type Size struct{ Rows, Columns int }

// openTerminal makes a pseudo-terminal (pty(7)) and returns our end and the
// command's. The pair is the host's, so the command has a terminal without a
// name: nothing in the box can open it but what inherits it, and what is
// pushed into it ends with it.
func openTerminal(uid int, size Size) (*os.File, int, error) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
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
	// By descriptor and not by name: another /dev/pts may be mounted here
	// (ioctl_tty(2), TIOCGPTPEER).
	slave, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return fail("open the other end of a", errno)
	}
	if err := unix.Fchown(int(slave), uid, -1); err != nil {
		boxinit.CloseAll([]int{int(slave)})
		return fail("hand out", err)
	}
	return os.NewFile(uintptr(master), "terminal"), int(slave), nil
}

func setSize(master int, size Size) error {
	return unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(size.Rows), Col: uint16(size.Columns)})
}

// Resize tells the command that its terminal has another size. A job without
// one takes no notice.
func (j *Job) Resize(size Size) error {
	if j.terminal == nil || j.Status() != Running {
		return nil
	}
	conn, err := j.terminal.SyscallConn()
	if err != nil {
		return fmt.Errorf("size terminal: %w", err)
	}
	var sizeErr error
	if err := conn.Control(func(fd uintptr) { sizeErr = setSize(int(fd), size) }); err != nil {
		return fmt.Errorf("size terminal: %w", err)
	}
	return sizeErr
}
