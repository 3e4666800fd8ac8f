package boxinit

import (
	"os"
	"syscall"
	"unsafe"
)

// The names that belljar gives as argv[0] to the init and the helpers, which it starts from
// its own binary. Their arguments contain nothing else: a helper gets its task over
// descriptor 3, where no command in a box can read it.
const (
	InitName   = "belljar-init"
	KeeperName = "belljar-keeper"
	MapName    = "belljar-map"
)

// init enters the helpers before the packages that sort after this one are initialised: the
// helpers need nothing of what the server links. This is one of two init functions of the
// project; the other one answers --version. (The init of a box does not come here: see
// entry.)
func init() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case KeeperName:
		os.Exit(runKeeper())
	case MapName:
		os.Exit(runMap())
	}
}

// nameProcess sets the name that ps shows: a process that was started by /proc/self/exe is
// otherwise called "exe".
func nameProcess(name string) {
	const prSetName = 15 // prctl(2) PR_SET_NAME
	if p, err := syscall.BytePtrFromString(name); err == nil {
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetName, uintptr(unsafe.Pointer(p)), 0)
	}
}

// runMap lives until its control connection closes: its user namespace is needed for the
// mapping of a workspace's owner.
func runMap() int {
	var b [1]byte
	for {
		if _, err := syscall.Read(control, b[:]); err != syscall.EINTR {
			return 0
		}
	}
}
