package boxinit

import (
	"fmt"
	"syscall"
	"unsafe"
)

// Numbers that package syscall lacks. golang.org/x/sys has them all, but the
// init links nothing beside the standard library: packages are initialised in
// the order of their import paths, and a dependency on golang.org/x/sys would
// put the initialisers of every package before it ("cel.dev", "github.com")
// in front of the init. The system call numbers from 424 on are the same on
// every architecture (kernel: scripts/syscall.tbl).
const (
	sysOpenTree     = 428
	sysMoveMount    = 429
	sysCloseRange   = 436
	sysMountSetattr = 442

	openTreeClone    = 1                 // open_tree(2) OPEN_TREE_CLONE
	openTreeCloexec  = syscall.O_CLOEXEC // OPEN_TREE_CLOEXEC
	atEmptyPath      = 0x1000            // AT_EMPTY_PATH
	atRecursive      = 0x8000            // AT_RECURSIVE
	moveMountFEmpty  = 0x4               // move_mount(2) MOVE_MOUNT_F_EMPTY_PATH
	attrReadOnly     = 0x1               // mount_setattr(2) MOUNT_ATTR_RDONLY
	attrNoSUID       = 0x2               // MOUNT_ATTR_NOSUID
	attrNoDev        = 0x4               // MOUNT_ATTR_NODEV
	attrIDMap        = 0x100000          // MOUNT_ATTR_IDMAP
	prSetDumpable    = 4                 // prctl(2) PR_SET_DUMPABLE
	prCapBSetDrop    = 24                // PR_CAPBSET_DROP
	prSetNoNewPrivs  = 38                // PR_SET_NO_NEW_PRIVS
	prCapAmbient     = 47                // PR_CAP_AMBIENT
	prCapAmbientClr  = 4                 // PR_CAP_AMBIENT_CLEAR_ALL
	seccompSetFilter = 1                 // seccomp(2) SECCOMP_SET_MODE_FILTER
	seccompTSync     = 1                 // SECCOMP_FILTER_FLAG_TSYNC
	capVersion3      = 0x20080522        // capset(2) _LINUX_CAPABILITY_VERSION_3
	capSysAdmin      = 21                // capabilities(7)
	capLast          = 63                // more than there are; EINVAL ends the loop
	pAll             = 0                 // waitid(2) P_ALL
	wExited          = 4                 // WEXITED
	wNoWait          = 0x1000000         // WNOWAIT
	rlimitNProc      = 6                 // getrlimit(2) RLIMIT_NPROC
	ifNameSize       = 16                // netdevice(7) IFNAMSIZ
)

// MountAttr says how a tree is to be mounted.
type MountAttr struct {
	Writable bool
	Devices  bool // device nodes in it work
	IDMap    int  // file descriptor of a user namespace, or 0: mount_setattr(2) MOUNT_ATTR_IDMAP
}

// OpenTree clones the mount tree at path into one that is attached nowhere,
// private and with attr applied, and returns its file descriptor. It needs
// CAP_SYS_ADMIN over the caller's mount namespace (open_tree(2)).
func OpenTree(path string, attr MountAttr) (int, error) {
	fd, err := openTree(path, attr, atRecursive)
	if err == syscall.EINVAL && attr.IDMap != 0 {
		// A file system mounted below may not know idmapping; the workspace
		// itself still may.
		return openTree(path, attr, 0)
	}
	return fd, err
}

func openTree(path string, attr MountAttr, recursive uintptr) (int, error) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	at := ^uintptr(99) // AT_FDCWD, -100
	r, _, errno := syscall.Syscall(sysOpenTree, at, uintptr(unsafe.Pointer(p)), openTreeClone|openTreeCloexec|recursive)
	if errno != 0 {
		return -1, errno
	}
	fd := int(r)
	set := struct{ set, clr, propagation, userns uint64 }{
		set:         attrNoSUID,
		propagation: syscall.MS_PRIVATE, // else a mount on the host would appear inside
	}
	if !attr.Writable {
		set.set |= attrReadOnly
	}
	if !attr.Devices {
		set.set |= attrNoDev
	}
	if attr.IDMap != 0 {
		set.set |= attrIDMap
		set.userns = uint64(attr.IDMap)
	}
	var empty byte
	_, _, errno = syscall.Syscall6(sysMountSetattr, r, uintptr(unsafe.Pointer(&empty)),
		atEmptyPath|recursive, uintptr(unsafe.Pointer(&set)), unsafe.Sizeof(set), 0)
	if errno != 0 {
		syscall.Close(fd)
		return -1, errno
	}
	return fd, nil
}

// attach moves the detached tree fd to target.
func attach(fd int, target string) error {
	p, err := syscall.BytePtrFromString(target)
	if err != nil {
		return err
	}
	var empty byte
	_, _, errno := syscall.Syscall6(sysMoveMount, uintptr(fd), uintptr(unsafe.Pointer(&empty)),
		^uintptr(99), uintptr(unsafe.Pointer(p)), moveMountFEmpty, 0)
	if errno != 0 {
		return fmt.Errorf("move_mount %s: %w", target, errno)
	}
	return nil
}

// prctl calls prctl(2) on the calling thread.
func prctl(op, arg uintptr) error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, op, arg, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// capSets are the capability sets of capset(2), low and high words.
type capSets [2]struct{ effective, permitted, inheritable uint32 }

type capHeader struct {
	version uint32
	pid     int32
}
