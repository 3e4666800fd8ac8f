package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/hostexec"
	"belljar.dev/sandbox/boxinit"
)

// filterActions are the actions that the filter returns, seccomp(2).
var filterActions = []struct {
	name  string
	value uint32
}{
	{"ALLOW", unix.SECCOMP_RET_ALLOW},
	{"ERRNO", unix.SECCOMP_RET_ERRNO},
	{"KILL_PROCESS", unix.SECCOMP_RET_KILL_PROCESS},
}

func checkFilter(a around) Check {
	c := Check{Name: "system call filter", Required: true, OK: true}
	fail := func(err error) Check {
		c.OK, c.Detail = false, err.Error()
		c.Degraded = "commands could reach all of the kernel, so none will run"
		c.Mend = "no setting fixes this: use a kernel with CONFIG_SECCOMP_FILTER"
		if a.filtered {
			c.Mend = a.loosen("seccomp=unconfined", "seccompProfile: {type: Unconfined}", "start belljar where no other system call filter forbids seccomp(2)")
		}
		return c
	}
	// Without a program, the call fails with EFAULT if the kernel has filters.
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, 0)
	if !errors.Is(errno, unix.EFAULT) {
		return fail(fmt.Errorf("seccomp: %w", errno))
	}
	var names []string
	for _, action := range filterActions {
		value := action.value
		if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&value))); errno != 0 {
			return fail(fmt.Errorf("seccomp action %s: %w", action.name, errno))
		}
		names = append(names, action.name)
	}
	c.Detail = "seccomp with " + strings.Join(names, ", ")
	return c
}

// landlockLoss is what a host loses if its Landlock interface is older than a
// version that boxes use (landlock(7), "Landlock ABI versions"). Version 4 is
// missing from the list: it restricts TCP ports, and a box has only its own.
type landlockLoss struct {
	since int    // the version of Landlock's interface that boxes use
	linux string // the first kernel with that version
	what  string
	means string
}

// The second wall repeats what the first one says, so a loss weakens the walls and opens
// nothing by itself.
var landlockLosses = []landlockLoss{
	{5, "6.10", "ioctl_dev", "only the system call filter stops calls to device drivers"},
	{landlockNewest, "6.12", "scoped sockets and signals", "only namespaces keep abstract sockets and processes outside of a box out of its reach, and commands of one box can signal each other"},
}

func checkLandlock() (int, Check) {
	c := Check{Name: "landlock"}
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	version := int(v)
	if errno == 0 && version >= landlockLeast {
		describeLandlock(&c, version)
		return version, c
	}
	c.Detail = fmt.Sprintf("version %d", version)
	c.Degraded = "files, abstract sockets and signals have no second wall: only mounts, namespaces and the system call filter protect them; each command runs in a pid namespace of its own"
	c.Mend = "no setting fixes this: use Linux 5.19 or later with CONFIG_SECURITY_LANDLOCK; 6.12 has everything that boxes use"
	if errno != 0 {
		version, c.Detail = 0, "landlock_create_ruleset: "+errno.Error()
	}
	switch {
	case errors.Is(errno, unix.EOPNOTSUPP): // built in, but switched off
		c.Mend = "boot with landlock first in the kernel's lsm= parameter: lsm=landlock," + orElse(knob("/sys/kernel/security/lsm"), "yama,apparmor,bpf")
	case errors.Is(errno, unix.EPERM):
		c.Mend = "start belljar where no other system call filter forbids landlock_create_ruleset(2)"
	}
	return version, c
}

// describeLandlock adds what a version of Landlock has and lacks to a check.
func describeLandlock(c *Check, version int) {
	c.OK, c.Detail = true, fmt.Sprintf("version %d: changes to files", version)
	var lost []string
	for _, l := range landlockLosses {
		if version >= l.since {
			c.Detail += ", " + l.what
			continue
		}
		lost = append(lost, fmt.Sprintf("no %s (version %d): %s", l.what, l.since, l.means))
	}
	if len(lost) > 0 {
		c.Degraded = strings.Join(lost, "; ")
		c.Mend = "no setting fixes this: use Linux " + landlockLosses[len(landlockLosses)-1].linux + " or later"
	}
}

func orElse(text, other string) string {
	if text != "" {
		return text
	}
	return other
}

// checkCalls tries the newer system calls that belljar itself makes, before and after a box
// is made.
func checkCalls(a around) Check {
	calls := []struct {
		name, linux, lost string
		try               func() error
	}{
		{"openat2", "5.6", "belljar cannot be sure that a file is opened beneath its workspace, so it opens none", func() error {
			fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{
				Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
			})
			if err == nil {
				unix.Close(fd)
			}
			return err
		}},
		{"close_range", "5.9", "descriptors that were left open could reach a box, so no box will be made", func() error {
			return unix.CloseRange(1<<30, 1<<30, 0) // no descriptor has such a number
		}},
		{"clone3", "5.3", "the first process of a box cannot be started, so no box will be made", func() error {
			// With arguments of size zero, no process is made (clone(2), EINVAL).
			if _, _, errno := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0); !errors.Is(errno, unix.EINVAL) {
				return errno
			}
			return nil
		}},
		{"pidfd_open", "5.3", "a process could be mistaken for another one, so no process will be started", func() error {
			fd, err := unix.PidfdOpen(os.Getpid(), 0)
			if err == nil {
				unix.Close(fd)
			}
			return err
		}},
		{"memfd_create", "3.17", "the first process of a box has no program to start from, so no box will be made", tryMemory},
	}
	c := Check{Name: "system calls", Required: true, OK: true}
	var names []string
	for _, call := range calls {
		names = append(names, call.name)
		err := call.try()
		if err == nil {
			continue
		}
		c.OK, c.Detail, c.Degraded = false, call.name+": "+err.Error(), call.lost
		c.Mend = "no setting fixes this: use Linux " + call.linux + " or later"
		switch {
		case errors.Is(err, errNotExecutable) || errors.Is(err, unix.EACCES) && call.name == "memfd_create":
			c.Mend = "sysctl -w vm.memfd_noexec=0"
		case a.filtered:
			c.Mend = a.loosen("seccomp=unconfined", "seccompProfile: {type: Unconfined}", "start belljar where no other system call filter forbids "+call.name)
		}
		return c
	}
	c.Detail = strings.Join(names, ", ")
	return c
}

var errNotExecutable = errors.New("files in memory cannot be executed")

// tryMemory makes a file in memory, seals it, and checks whether it could be executed,
// which sysctl vm.memfd_noexec can prevent (kernel:
// Documentation/userspace-api/mfd_noexec.rst).
func tryMemory() error {
	fd, err := unix.MemfdCreate(tryName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SEAL); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&0o111 == 0 {
		return errNotExecutable
	}
	return nil
}

// checkOwners tries what root's boxes need of a workspace's file system: that
// its owner can be mapped to the box's user.
func checkOwners(workspace string) Check {
	c := Check{Name: "owner mapping", OK: true}
	kind := fsKind(workspace)
	err := tryOwners(workspace)
	if err == nil {
		c.Detail = "files made in the workspace belong to its owner, on " + kind
		return c
	}
	c.OK, c.Detail = false, fmt.Sprintf("%s on %s: %v", workspace, kind, err)
	c.Degraded = "as root, a box cannot be given this workspace"
	c.Mend = "put the workspace on ext4, xfs, btrfs, or tmpfs with Linux 6.3, or run belljar as its owner"
	if errors.Is(err, fs.ErrNotExist) {
		c.Mend = "name a directory that exists"
	}
	return c
}

func tryOwners(workspace string) error {
	if _, err := os.Stat(workspace); err != nil {
		return err
	}
	p, control, err := hostexec.Helper(boxinit.MapName, &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: firstUID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: firstUID, Size: 1}},
	})
	if err != nil {
		return err
	}
	defer func() { _, _ = p.Wait() }()
	defer control.Close() // ends the helper
	users, err := os.Open(filepath.Join("/proc", strconv.Itoa(p.Pid), "ns/user"))
	if err != nil {
		return err
	}
	defer users.Close()
	fd, err := unix.OpenTree(unix.AT_FDCWD, workspace, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(fd)
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd())}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return nil
}

// fsKind returns the name of the file system of a directory.
func fsKind(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return "an unknown file system"
	}
	if name := map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
		unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "nfs",
		unix.FUSE_SUPER_MAGIC: "fuse", unix.F2FS_SUPER_MAGIC: "f2fs", zfsMagic: "zfs", unix.V9FS_MAGIC: "9p",
	}[st.Type]; name != "" {
		return name
	}
	return fmt.Sprintf("file system %#x", st.Type)
}

// zfsMagic is not in the kernel's tree (openzfs: sys/zfs_vfsops.h).
const zfsMagic = 0x2fc12fc1
