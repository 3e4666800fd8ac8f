package boxinit

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// SpawnCall is a system call that a child makes before it becomes another program: its
// number and first four arguments.
type SpawnCall [5]uint64

// cloneArgs is struct clone_args, clone3(2): flags, pidfd, child_tid,
// parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size,
// cgroup.
type cloneArgs [11]uint64

// spawn makes a child that makes the calls. The last call must not return. If a
// call fails, its result is stored in failed. spawn is written in assembly.
//
//go:noescape
func spawn(args *cloneArgs, calls *SpawnCall, failed *uint64) uintptr

// Spawn starts a process in new namespaces, which are bits of flags, and in the cgroup, if
// cgroup is not negative. os.StartProcess copies all of the program's memory if a user
// namespace is made, because it maps users in the middle; here the child borrows the
// memory, and users are mapped when the child has become the other program. The child
// borrows the table of descriptors too, so the first call must give it a table of its own.
// The calls end with an execve(2). The memory that they point to must stay alive. The
// caller must be on a locked thread.
func Spawn(flags uint64, cgroup int, calls []SpawnCall) (pid int, err error) {
	args := cloneArgs{0: flags | cloneVM | cloneVfork | cloneFiles, 4: uint64(syscall.SIGCHLD)}
	if cgroup >= 0 {
		args[0] |= cloneIntoCgroup
		args[10] = uint64(cgroup)
	}
	failed := new(uint64)
	// The child must not run a signal handler of the Go runtime: it has our handlers and
	// our memory until it is another program. It inherits the signal mask.
	all, old := ^uint64(0), uint64(0)
	if err := sigmask(&all, &old); err != nil {
		return 0, err
	}
	r := spawn(&args, &calls[0], failed)
	_ = sigmask(&old, nil)
	runtime.KeepAlive(calls)
	if errno := -r; errno < 4096 {
		return 0, syscall.Errno(errno)
	}
	if *failed != 0 {
		var status syscall.WaitStatus
		_, _ = syscall.Wait4(int(r), &status, 0, nil)
		return 0, fmt.Errorf("begin as another program: %w", syscall.Errno(-*failed))
	}
	return int(r), nil
}

// sigmask sets the signal mask of the calling thread.
func sigmask(mask, old *uint64) error {
	const set = 2 // SIG_SETMASK
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, set, uintptr(unsafe.Pointer(mask)), uintptr(unsafe.Pointer(old)), sigSetSize, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
