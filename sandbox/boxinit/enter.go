package boxinit

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// The names, as argv[0], under which belljar starts itself. The arguments
// carry nothing: what a process is to do comes over descriptor 3, where no
// command in a box can read it.
const (
	InitName   = "belljar-init"
	KeeperName = "belljar-keeper"
	MapName    = "belljar-map"
)

// control is the descriptor of the connection to the supervisor.
const control = 3

// init enters before the packages that sort after this one are initialised:
// an init needs none of what the server links, and a start that runs the
// initialisers of the whole program costs several times as much. This is the
// one init function of the project.
func init() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case InitName:
		os.Exit(runInit())
	case KeeperName:
		os.Exit(runKeeper())
	case MapName:
		os.Exit(runMap())
	}
}

// runInit is the life of process 1 of a box.
func runInit() int {
	// Commands are started from this thread only; see lock.
	runtime.LockOSThread()
	nameProcess(InitName)
	w := newWire(control)
	score := newVictim()
	if err := prctl(prSetDumpable, 0); err != nil {
		return fail(w, fmt.Errorf("set undumpable: %w", err))
	}
	if err := keepFromCommands(control); err != nil {
		return fail(w, fmt.Errorf("mark descriptors: %w", err))
	}
	var plan Plan
	trees, err := w.receive(&plan)
	if err != nil {
		return fail(w, fmt.Errorf("read the plan: %w", err))
	}
	if err := buildRoot(&plan, trees); err != nil {
		return fail(w, err)
	}
	spareThreads()
	if err := lock(&plan); err != nil {
		return fail(w, err)
	}
	surviveSignals() // after lock, which needs a signal to reach all threads
	s := newServer(w, &plan, score)
	if err := w.send(Reply{Op: "ready"}); err != nil {
		return 1
	}
	return s.serve()
}

// surviveSignals makes process 1 immune to what a command may send it. The
// kernel drops every signal to a process 1 that does not handle it
// (pid_namespaces(7)), but the Go runtime handles nearly all and ends the
// process for many. So its handlers are taken away again, but for the one that
// it sends itself. Commands inherit nothing but defaults.
func surviveSignals() {
	const last = 64 // signal(7), SIGRTMAX
	action := struct{ handler, flags, restorer, mask uint64 }{}
	for sig := uintptr(1); sig <= last; sig++ {
		if sig == uintptr(syscall.SIGURG) {
			continue
		}
		// SIGKILL and SIGSTOP fail, as they should.
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
}

// nameProcess is what ps shows: started by way of /proc/self/exe, a process is
// called "exe".
func nameProcess(name string) {
	const prSetName = 15 // prctl(2) PR_SET_NAME
	if p, err := syscall.BytePtrFromString(name); err == nil {
		_ = prctl(prSetName, uintptr(unsafe.Pointer(p)))
	}
}

// fail tells the host why the box could not be made.
func fail(w *wire, err error) int {
	var errno syscall.Errno
	errors.As(err, &errno)
	_ = w.send(Reply{Op: "failed", Error: err.Error(), Errno: int(errno)})
	return 1
}

// keepFromCommands marks every descriptor from first on to be closed by an
// exec: our own connection, what the Go runtime opened, and what the caller
// of belljar had left open (CVE-2024-21626).
func keepFromCommands(first uintptr) error {
	const cloexec = 4 // close_range(2) CLOSE_RANGE_CLOEXEC
	if _, _, errno := syscall.Syscall(sysCloseRange, first, ^uintptr(0)>>32, cloexec); errno != 0 {
		return errno
	}
	return nil
}

// spareThreads makes the runtime keep idle threads. Once a command has used
// up the box's processes no thread can be made, and a Go program that needs
// one then dies.
func spareThreads() {
	const spare = 5
	ready, done := make(chan struct{}), make(chan struct{})
	for range spare {
		go func() {
			runtime.LockOSThread() // a thread of its own, kept when it is let go
			ready <- struct{}{}
			<-done
			runtime.UnlockOSThread()
		}()
	}
	for range spare {
		<-ready
	}
	close(done)
}

// runMap lives until its control connection closes: its user namespace is
// wanted, for the mapping of a workspace's owner.
func runMap() int {
	var b [1]byte
	for {
		if _, err := syscall.Read(control, b[:]); err != syscall.EINTR {
			return 0
		}
	}
}
