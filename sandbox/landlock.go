package sandbox

import (
	"golang.org/x/sys/unix"
)

// landlock is the version of the kernel's Landlock ABI (landlock(7)). Landlock is
// the second wall: its rules repeat, by path, what the mounts allow, so that a
// mistake in the mounts is not enough to get out. Version 1 is not used, because
// with it no file could be moved between directories.
type landlock int

const (
	landlockLeast  = 2 // Linux 5.19
	landlockNewest = 6 // Linux 6.12: abstract sockets and signals end in the box
)

// probeLandlock returns the version of Landlock's interface, or 0 if the kernel
// does not offer it.
func probeLandlock() landlock {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return landlock(v)
}

// Rights to files, landlock(7). Rights to read and execute are not among them: they would
// be allowed from the root down, so that the kernel would look for a rule in vain at every
// open. LANDLOCK_ACCESS_FS_TRUNCATE is not among them either: the kernel looks for it at
// every open, because of a later ftruncate(2).
const (
	// landlockChange is what a command may do where it may write: everything except making
	// devices.
	landlockChange = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	landlockDevices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

// handled returns the rights that a ruleset of this version decides about.
func (v landlock) handled() uint64 {
	rights := uint64(landlockChange | landlockDevices | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
	if v < 5 {
		rights &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// add adds the calls that restrict a box: files may be changed in the places
// that are the box's own or were granted, and nowhere else.
func (v landlock) add(b *builder, p *plan) {
	if v < landlockLeast {
		return
	}
	b.Step("restrict by landlock")
	handled := v.handled()
	size := 8
	attr := []uint64{handled, 0, 0} // struct landlock_ruleset_attr
	if v >= landlockNewest {
		attr[2], size = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET|unix.LANDLOCK_SCOPE_SIGNAL, 24
	}
	rules := b.Call(unix.SYS_LANDLOCK_CREATE_RULESET, b.Words(attr...), size, 0).Save()
	allow := func(path string, rights uint64) {
		dir := b.Call(unix.SYS_OPENAT, atFDCWD, path, unix.O_PATH|unix.O_CLOEXEC).Save()
		rule := b.Words(rights&handled, 0) // struct landlock_path_beneath_attr, packed
		b.Store(rule+8, dir, 4)
		b.Call(unix.SYS_LANDLOCK_ADD_RULE, rules, unix.LANDLOCK_RULE_PATH_BENEATH, rule, 0)
	}
	allow("/proc", unix.LANDLOCK_ACCESS_FS_WRITE_FILE)
	allow("/dev", unix.LANDLOCK_ACCESS_FS_WRITE_FILE|unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
	allow(storageRoot, landlockChange)
	for _, s := range storageDirs {
		if s.target != storageRoot+"/"+s.name {
			allow(s.target, landlockChange)
		}
	}
	if p.overlaid() {
		allow(WorkspaceDir, landlockChange)
	}
	for _, m := range p.mounts {
		switch {
		case m.devices || !m.writable && !m.scratch || m.layer:
		case m.dir:
			allow(m.target, landlockChange)
		default:
			allow(m.target, unix.LANDLOCK_ACCESS_FS_WRITE_FILE)
		}
	}
	b.Call(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0)
}

// part adds the calls by which the init can separate each command of a box from the others.
// They make a ruleset, by which each command restricts itself, so that each is in a domain
// of its own. The kernel then lets a process look only into processes of its own domain, or
// of a domain below it, whether by ptrace(2) or by what /proc shows of memory, descriptors
// and environment (landlock(7), "Ptrace restrictions"). If signals are scoped, the same is
// true for them. The init is above all commands, and the supervisor is outside.
//
// A ruleset must decide about at least one right. The right to move files between
// directories is the one to choose: any ruleset denies it, even one that does not name it
// (landlock(7), LANDLOCK_ACCESS_FS_REFER). The calls allow it again for the whole box, and
// the kernel looks for it only when something is moved.
func (v landlock) part(b *builder) {
	b.Step("make the domain of the commands")
	attr, size := []uint64{unix.LANDLOCK_ACCESS_FS_REFER, 0, 0}, 8
	if v >= landlockNewest {
		attr[2], size = unix.LANDLOCK_SCOPE_SIGNAL, 24
	}
	rules := b.Call(unix.SYS_LANDLOCK_CREATE_RULESET, b.Words(attr...), size, 0).Save()
	root := b.Call(unix.SYS_OPENAT, atFDCWD, "/", unix.O_PATH|unix.O_CLOEXEC).Save()
	rule := b.Words(unix.LANDLOCK_ACCESS_FS_REFER, 0)
	b.Store(rule+8, root, 4)
	b.Call(unix.SYS_LANDLOCK_ADD_RULE, rules, unix.LANDLOCK_RULE_PATH_BENEATH, rule, 0)
	b.Domain(b.Call(unix.SYS_DUP3, rules, domainFile, unix.O_CLOEXEC).Save())
}
