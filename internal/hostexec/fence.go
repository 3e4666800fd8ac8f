package hostexec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/procfs"
)

// endTime is how long killed processes may take to be gone.
const endTime = 5 * time.Second

// fence holds a program and all that it starts: a cgroup, else for root a pid
// namespace, else a process group.
type fence struct {
	dir    string   // of the cgroup; empty without one
	cgroup *os.File // the same, open
	pidfd  int      // of the program, once it is started
}

// fences counts them, for names.
var fences atomic.Int64

// newFence makes a fence in a directory of cgroups. A directory that cannot be
// used is an error, because its caller relies on it.
func newFence(below string) (*fence, error) {
	f := &fence{pidfd: -1}
	if below == "" {
		return f, nil
	}
	f.dir = filepath.Join(below, fmt.Sprintf("program-%d", fences.Add(1)))
	if err := os.Mkdir(f.dir, 0o755); err != nil { //nolint:gosec // cgroup directories have no secrets
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	var err error
	if f.cgroup, err = os.Open(f.dir); err != nil {
		_ = os.Remove(f.dir)
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	return f, nil
}

// attr is how a program is started into the fence. It leads a session of its own:
// it has no terminal, and what kills our process group is not its end.
func (f *fence) attr() *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, PidFD: &f.pidfd}
	switch {
	case f.cgroup != nil:
		sys.UseCgroupFD, sys.CgroupFD = true, int(f.cgroup.Fd())
	case os.Geteuid() == 0:
		// The program is process 1 there, and the kernel kills the rest with it
		// (pid_namespaces(7)). It differs in one thing: a signal that it sends
		// itself, and has no handler for, does nothing.
		sys.Cloneflags = unix.CLONE_NEWPID
	}
	return sys
}

// pidfdGroup is PIDFD_SIGNAL_PROCESS_GROUP of linux/pidfd.h, since Linux 6.9.
const pidfdGroup = 1 << 2

// kill kills what is in the fence.
func (f *fence) kill() error {
	if f.dir != "" {
		return procfs.Write(filepath.Join(f.dir, "cgroup.kill"), "1")
	}
	if f.pidfd < 0 {
		return os.ErrProcessDone
	}
	err := unix.PidfdSendSignal(f.pidfd, unix.SIGKILL, nil, pidfdGroup)
	if errors.Is(err, unix.EINVAL) { // an older kernel: the leader alone
		err = unix.PidfdSendSignal(f.pidfd, unix.SIGKILL, nil, 0)
	}
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// end kills what the program left, once that has ended, and waits until it is
// gone.
func (f *fence) end() error {
	err := f.kill()
	if f.dir == "" {
		// A pid namespace went with the program. A process group has nobody to ask
		// whether it is empty.
		if errors.Is(err, os.ErrProcessDone) {
			return nil
		}
		return err
	}
	if err != nil {
		return fmt.Errorf("kill what the program left: %w", err)
	}
	events, err := unix.Open(filepath.Join(f.dir, "cgroup.events"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("wait for what the program left: %w", err)
	}
	defer unix.Close(events)
	for deadline := time.Now().Add(endTime); ; {
		var text [128]byte
		n, err := unix.Pread(events, text[:], 0)
		if err != nil {
			return fmt.Errorf("wait for what the program left: %w", err)
		}
		if strings.Contains(string(text[:n]), "populated 0") {
			return nil
		}
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("what the program left is not gone %s after it was killed", endTime)
		}
		// The kernel announces each change of the file (cgroups(7)).
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(events), Events: unix.POLLPRI}}, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for what the program left: %w", err)
		}
	}
}

// close gives the fence up.
func (f *fence) close() {
	if f.pidfd >= 0 {
		unix.Close(f.pidfd)
	}
	if f.cgroup != nil {
		f.cgroup.Close()
		_ = os.Remove(f.dir) // or with the directory above it
	}
}
