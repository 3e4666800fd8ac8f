package boxinit

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// lock gives up, for this process and for all that it will start, everything
// that is not needed to run commands. It runs once; commands inherit it and
// cost no more than an exec. It must be called on the thread that will start
// the commands: the bounding set belongs to a thread, and only that thread's
// is emptied (41 calls on each thread would cost milliseconds). The other
// threads never start a process.
func lock(p *Plan) error {
	for _, limit := range []struct {
		what  int
		value uint64
	}{
		{syscall.RLIMIT_CORE, 0},
		{syscall.RLIMIT_NOFILE, p.Files0},
		{rlimitNProc, p.Procs},
	} {
		if limit.what != syscall.RLIMIT_CORE && limit.value == 0 {
			continue
		}
		if err := syscall.Setrlimit(limit.what, &syscall.Rlimit{Cur: limit.value, Max: limit.value}); err != nil {
			return fmt.Errorf("rlimit %d: %w", limit.what, err)
		}
	}
	for c := uintptr(0); c <= capLast; c++ {
		if err := prctl(prCapBSetDrop, c); err == syscall.EINVAL {
			break
		} else if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := prctl(prCapAmbient, prCapAmbientClr); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	if err := dropCapabilities(p.Nested); err != nil {
		return err
	}
	// On this thread; installing the filter carries it to the others
	// (seccomp(2), SECCOMP_FILTER_FLAG_TSYNC).
	if err := prctl(prSetNoNewPrivs, 1); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return installFilter(p.Filter)
}

// dropCapabilities empties the capability sets of all threads. Where each
// command needs a pid namespace of its own the init keeps the one capability
// that making it takes; an exec by a user other than 0 loses it, and the
// filter and the knobs of setKnobs leave nothing else to do with it.
func dropCapabilities(nested bool) error {
	header := capHeader{version: capVersion3}
	var sets capSets
	if nested {
		sets[0].effective, sets[0].permitted = 1<<capSysAdmin, 1<<capSysAdmin
	}
	args := [2]uintptr{uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets))}
	_, _, errno := syscall.AllThreadsSyscall(syscall.SYS_CAPSET, args[0], args[1], 0)
	if errno == syscall.ENOTSUP {
		// A build with cgo, as the race detector needs, cannot reach the other
		// threads; they start nothing, so what they keep gets nowhere.
		_, _, errno = syscall.RawSyscall(syscall.SYS_CAPSET, args[0], args[1], 0)
	}
	runtime.KeepAlive(&header)
	runtime.KeepAlive(&sets)
	if errno != 0 {
		return fmt.Errorf("drop capabilities: %w", errno)
	}
	return nil
}

// installFilter puts the system call filter on all threads (seccomp(2)).
func installFilter(program []byte) error {
	const size = 8 // struct sock_filter
	if len(program) == 0 || len(program)%size != 0 {
		return fmt.Errorf("system call filter of %d bytes: %w", len(program), syscall.EINVAL)
	}
	fprog := struct {
		length uint16
		filter *byte
	}{uint16(len(program) / size), &program[0]}
	_, _, errno := syscall.RawSyscall(sysSeccomp, seccompSetFilter, seccompTSync, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("install system call filter: %w", errno)
	}
	return nil
}

// victim lets the init make its children the kernel's first choice when
// memory runs out: a child inherits the score, which can be raised and taken
// back without privilege (proc_pid_oom_score_adj(5)).
type victim struct{ file *os.File }

// newVictim must be called before the process becomes undumpable: after that
// its own /proc files belong to root.
func newVictim() victim {
	f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0)
	if err != nil {
		return victim{} // the limit holds without it; the init may be hit first
	}
	return victim{f}
}

func (v victim) set(score string) {
	if v.file != nil {
		_, _ = v.file.WriteString(score)
	}
}
