package hook

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Host runs hooks as programs of this machine, as this user.
type Host struct {
	Env []string // what they find beside their own variables
	Dir string   // where they run
}

// afterKill is how long what a hook started and left may hold its streams open.
const afterKill = 500 * time.Millisecond

// Run runs a hook in a process group of its own, which ends when its time is up.
func (h Host) Run(ctx context.Context, c Command) (code int, err error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Env, cmd.Dir = c.Environ(h.Env), h.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(c.Stdin), c.Out, c.Err
	pidfd := -1
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, PidFD: &pidfd}
	cmd.WaitDelay = afterKill
	cmd.Cancel = func() error {
		// The whole group, which is named by its leader's pidfd and not by a
		// number (pidfd_send_signal(2), since Linux 6.9); else the leader.
		if pidfd >= 0 && unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, pidfdGroup) == nil {
			return nil
		}
		return cmd.Process.Kill()
	}
	err = cmd.Run()
	if pidfd >= 0 {
		defer unix.Close(pidfd)
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), nil
	case errors.Is(err, exec.ErrWaitDelay):
		return 0, nil // it ended well, and left something behind that holds its streams
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return 0, errors.New(c.Argv[0] + " is not on this machine")
	}
	return 0, err
}

// pidfdGroup is PIDFD_SIGNAL_PROCESS_GROUP of linux/pidfd.h.
const pidfdGroup = 1 << 2
