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

// endTime is the time in which killed processes must be gone.
const endTime = 5 * time.Second

// fence contains a program and all processes that it starts. It is a cgroup; without a
// cgroup it is a pid namespace for root, and a process group for other users.
type fence struct {
	dir    string   // path of the cgroup; empty without a cgroup
	cgroup *os.File // open directory of the cgroup
	pidfd  int      // pidfd of the program; -1 until the program is started
}

// fences is the number of fences so far, for the names of their cgroups.
var fences atomic.Int64

// newFence makes a fence, with a cgroup in the directory below. A directory that cannot be
// used is an error, because the caller relies on the cgroup.
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

// attr returns the attributes with which a program is started into the fence. The program
// leads its own session: it has no terminal, and a kill of our process group does not reach
// it.
func (f *fence) attr() *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, PidFD: &f.pidfd}
	switch {
	case f.cgroup != nil:
		sys.UseCgroupFD, sys.CgroupFD = true, int(f.cgroup.Fd())
	case os.Geteuid() == 0:
		// The program is process 1 in its namespace, and when it ends, the kernel kills the
		// other processes there (pid_namespaces(7)). There is one difference: a signal that
		// process 1 sends itself without having a handler for it does nothing.
		sys.Cloneflags = unix.CLONE_NEWPID
	}
	return sys
}

// pidfdGroup is PIDFD_SIGNAL_PROCESS_GROUP of linux/pidfd.h, since Linux 6.9.
const pidfdGroup = 1 << 2

// kill kills the processes in the fence.
func (f *fence) kill() error {
	if f.dir != "" {
		return procfs.Write(filepath.Join(f.dir, "cgroup.kill"), "1")
	}
	if f.pidfd < 0 {
		return os.ErrProcessDone
	}
	err := unix.PidfdSendSignal(f.pidfd, unix.SIGKILL, nil, pidfdGroup)
	if errors.Is(err, unix.EINVAL) { // older kernels: kill only the leader
		err = unix.PidfdSendSignal(f.pidfd, unix.SIGKILL, nil, 0)
	}
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// end is called after the program has ended. It kills the processes that the program left,
// and waits until they are gone.
func (f *fence) end() error {
	err := f.kill()
	if f.dir == "" {
		// A pid namespace ended with the program. The kernel does not report whether a
		// process group is empty.
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

// close releases the fence.
func (f *fence) close() {
	if f.pidfd >= 0 {
		unix.Close(f.pidfd)
	}
	if f.cgroup != nil {
		f.cgroup.Close()
		_ = os.Remove(f.dir) // a directory that cannot be removed now goes with its parent
	}
}
