package sandbox

import (
	"path"
	"slices"
	"strings"
	"syscall"

	"belljar.dev/sandbox/boxinit"
	"golang.org/x/sys/unix"
)

// builder writes the script that builds a box. Every method adds calls.
type builder struct {
	*boxinit.Script
	made   map[string]bool // paths that were made in the new root
	bounds boxinit.Ref     // size options of the root's file system, set after everything is made
	sealed bool            // files are closed after writing, so that the mount can become read-only
	kept   []boxinit.Slot  // mounts that are handed over to the supervisor
}

const atFDCWD = ^uintptr(99) // AT_FDCWD as a system call takes it

// base is the directory in which the new root is built. Any directory of the host would do.
const base = "/tmp"

func (b *builder) attr(where any, flags int, a mountAttr) {
	at := b.Words(a.set, 0, a.propagation, 0)
	if slot, ok := where.(boxinit.Slot); ok {
		b.Call(unix.SYS_MOUNT_SETATTR, slot, "", unix.AT_EMPTY_PATH|flags, at, 32)
		return
	}
	b.Call(unix.SYS_MOUNT_SETATTR, atFDCWD, where, flags, at, 32)
}

// in returns the name of a path of the box while its root is being built.
func in(target string) string { return "." + target }

// closeFiles closes all descriptors that the script opened, above last.
func (b *builder) closeFiles(last int) {
	b.Call(unix.SYS_CLOSE_RANGE, last+1, 1<<32-1, 0)
}

// target makes the directory or empty file that a mount covers.
func (b *builder) target(name string, dir bool) {
	if dir {
		b.dir(name)
		return
	}
	b.dir(path.Dir(name))
	b.file(name, "")
}

// dir makes a directory and its parents. A directory that a tree of the host
// already has is fine.
func (b *builder) dir(name string) {
	if b.made[name] {
		return
	}
	b.dir(path.Dir(name))
	b.made[name] = true
	b.Call(unix.SYS_MKDIRAT, atFDCWD, in(name), 0o755).Ignore(unix.EEXIST, 0)
}

func (b *builder) file(name, text string) {
	if b.made[name] {
		return
	}
	b.made[name] = true
	f := b.Call(unix.SYS_OPENAT, atFDCWD, in(name), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o444).Save()
	if text != "" {
		b.Call(unix.SYS_WRITE, f, b.Text(text), len(text))
	}
	if b.sealed {
		b.Call(unix.SYS_CLOSE, f)
	}
}

// tmpfs makes a tmpfs, with a mount of it that is attached nowhere.
func (b *builder) tmpfs(options ...[2]string) (fs, tree boxinit.Slot) {
	fs = b.Call(unix.SYS_FSOPEN, "tmpfs", unix.FSOPEN_CLOEXEC).Save()
	for _, o := range append(options, [2]string{"source", "belljar"}) {
		b.Call(unix.SYS_FSCONFIG, fs, unix.FSCONFIG_SET_STRING, o[0], o[1], 0)
	}
	b.Call(unix.SYS_FSCONFIG, fs, unix.FSCONFIG_CMD_CREATE, 0, 0, 0)
	return fs, b.Call(unix.SYS_FSMOUNT, fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV).Save()
}

// knob writes one kernel setting. If opening its file fails with the errno absent
// (boxinit.AnyError for any), this kernel lacks the setting, and nothing is written.
func (b *builder) knob(name, value string, absent syscall.Errno) {
	f := b.Call(unix.SYS_OPENAT, atFDCWD, name, unix.O_WRONLY|unix.O_CLOEXEC).Ignore(absent, 1).Save()
	b.Call(unix.SYS_WRITE, f, value, len(value))
}

// program returns a struct sock_fprog of a filter, seccomp(2).
func (b *builder) program(filter []byte) boxinit.Ref {
	const size = 8 // struct sock_filter
	program := b.Words(uint64(len(filter)/size), 0)
	b.Store(program+8, b.Bytes(filter), 8)
	return program
}

// clone makes another mount of the tree of a mount that is attached nowhere.
func (b *builder) clone(tree boxinit.Slot) boxinit.Slot {
	return b.Call(unix.SYS_OPEN_TREE, tree, "", unix.OPEN_TREE_CLONE|unix.O_CLOEXEC|unix.AT_EMPTY_PATH).Save()
}

// beneathAny reports whether a path is beneath the target of one of mounts.
func beneathAny(mounts []mount, name string) bool {
	return slices.ContainsFunc(mounts, func(m mount) bool {
		return !m.layer && strings.HasPrefix(name, path.Clean(m.target)+"/")
	})
}

// handOver sends a reply, and files with it, to the supervisor.
func (b *builder) handOver(text []byte, files ...boxinit.Slot) {
	const head, word = unix.SizeofCmsghdr, 4 // cmsg(3)
	control := make([]byte, unix.CmsgSpace(len(files)*word))
	rights := b.Bytes(control)
	b.Store(rights, unix.CmsgLen(len(files)*word), 8)
	b.Store(rights+8, unix.SOL_SOCKET, word)
	b.Store(rights+12, unix.SCM_RIGHTS, word)
	for i, slot := range files {
		b.Store(rights+head+boxinit.Ref(i*word), slot, word)
	}
	vector := b.Words(0, uint64(len(text))) // struct iovec
	b.Store(vector, b.Bytes(text), 8)
	msg := b.Words(0, 0, 0, 1, 0, uint64(len(control)), 0) // struct msghdr, recvmsg(2)
	b.Store(msg+16, vector, 8)
	b.Store(msg+32, rights, 8)
	b.Call(unix.SYS_SENDMSG, initConn, msg, unix.MSG_NOSIGNAL)
}

// layered mounts an overlay of directories below the working directory, attached nowhere yet.
func (b *builder) layered(lower, upper, work string) boxinit.Slot {
	fs := b.Call(unix.SYS_FSOPEN, "overlay", unix.FSOPEN_CLOEXEC).Save()
	set := func(key, value string) {
		b.Call(unix.SYS_FSCONFIG, fs, unix.FSCONFIG_SET_STRING, key, value, 0)
	}
	set("lowerdir", lower)
	set("upperdir", upper)
	set("workdir", work)
	b.Call(unix.SYS_FSCONFIG, fs, unix.FSCONFIG_SET_FLAG, "userxattr", 0, 0)
	// These are set although userxattr implies them: no layer may name another place, or a
	// file whose content is elsewhere.
	set("redirect_dir", "nofollow")
	set("metacopy", "off")
	set("index", "off")
	set("xino", "off") // xino uses file handles, which are not allowed here
	b.Call(unix.SYS_FSCONFIG, fs, unix.FSCONFIG_CMD_CREATE, 0, 0, 0)
	return b.Call(unix.SYS_FSMOUNT, fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV).Save()
}
