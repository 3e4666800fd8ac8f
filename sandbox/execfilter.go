package sandbox

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/seccomp"
)

// The programs that a box starts are seen in these steps:
//
//  1. the init installs a filter that makes each execve(2) and execveat(2) wait
//     for an answer, and sends the listener, which receives these calls and
//     answers them, to the supervisor (seccomp_unotify(2)); all that the init
//     starts inherits the filter;
//  2. the init's own execs carry a random number in an argument that execve(2)
//     does not use, and pass the filter: they start the command of the call, which
//     the policy has already judged. So a single command costs nothing extra;
//  3. for each other exec the supervisor reads what the caller gave the kernel,
//     answers, and records it (execview_linux.go).
//
// There is one listener for each box, even if commands have namespaces of their
// own: the kernel allows only one for a process (seccomp(2), EBUSY). It is in a
// separate filter below that of seccomp.Filter, whose refusals take precedence.

// watch adds the calls that make the kernel report the commands' execs to the
// supervisor.
func (p *plan) watch(b *builder) {
	if p.ours == 0 {
		return
	}
	b.Step("watch what is executed")
	b.Mark(p.ours)
	flags := uint64(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	if execSupport().killable {
		flags |= unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	}
	listener := b.Call(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, b.program(p.watcher)).Save()
	b.handOver(boxinit.ListenerReply(), listener)
	// If the supervisor closes its copy too, every exec fails with ENOSYS.
	b.Call(unix.SYS_CLOSE, listener)
}

// listens says whether this host can show the programs that boxes start.
type listens struct {
	err      error // why execs cannot be seen; nil if they can
	killable bool  // whether only fatal signals wake a process that waits for an answer (Linux 5.19)
}

// ptraceScope is the file that says which processes may read another process (yama(7)).
const ptraceScope = "/proc/sys/kernel/yama/ptrace_scope"

// execSupport tries whether execs can be seen, once, and remembers the result.
var execSupport = sync.OnceValue(func() listens {
	l := listens{}
	sizes := notifySizes{}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes))); errno != 0 {
		l.err = fmt.Errorf("seccomp, SECCOMP_GET_NOTIF_SIZES: %w", errno)
		return l
	}
	if sizes.notif != uint16(unsafe.Sizeof(notification{})) || sizes.reply != uint16(unsafe.Sizeof(notifyReply{})) {
		l.err = fmt.Errorf("seccomp: a notification of %d bytes and an answer of %d are not known here", sizes.notif, sizes.reply)
		return l
	}
	if knob(ptraceScope) == "3" {
		l.err = errors.New("kernel.yama.ptrace_scope is 3: nothing may read what a program is given")
		return l
	}
	var word, copied uint64
	_, err := unix.ProcessVMReadv(unix.Getpid(),
		[]unix.Iovec{{Base: (*byte)(unsafe.Pointer(&copied)), Len: 8}},
		[]unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&word)), Len: 8}}, 0)
	if err != nil {
		l.err = fmt.Errorf("process_vm_readv: %w", err)
		return l
	}
	// A kernel that knows the flags fails with EFAULT, because no filter program is given.
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, 0)
	l.killable = errors.Is(errno, unix.EFAULT)
	l.err = seccomp.TryListener()
	return l
})

// notifySizes is struct seccomp_notif_sizes.
type notifySizes struct{ notif, reply, data uint16 }

// checkExecs reports whether the programs that boxes start can be seen.
func checkExecs(a around) Check {
	l := execSupport()
	c := Check{Name: "exec view", OK: l.err == nil}
	switch {
	case l.err != nil:
		c.Detail = l.err.Error()
		c.Degraded = "a profile with exec: observe does not see the programs that its commands start, and one with exec: enforce opens no box here"
		c.Mend = "no setting fixes this: use Linux 5.9 or later with CONFIG_SECCOMP_FILTER"
		switch {
		case knob(ptraceScope) == "3":
			c.Mend = "boot with kernel.yama.ptrace_scope below 3; it cannot be lowered later"
		case a.filtered:
			c.Mend = a.loosen("seccomp=unconfined", "seccompProfile: {type: Unconfined}", "start belljar where no other program listens to its system calls")
		}
	case !l.killable:
		c.Detail = "programs can be seen before they start"
		c.Degraded = "a signal that a program handles makes it repeat the call, so one start may be reported twice"
		c.Mend = "no setting fixes this: use Linux 5.19 or later; with 6.6 it costs least"
	default:
		c.Detail = "programs can be seen, and stopped, before they start (seccomp user notification)"
	}
	return c
}
