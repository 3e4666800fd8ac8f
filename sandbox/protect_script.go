package sandbox

import "golang.org/x/sys/unix"

// pins binds what a protector pins over itself, in the workspace of the box
// that is being built. It comes after the workspace is attached, and before
// anything untrusted runs in the box.
//
// Between the list and the mount somebody may have changed the workspace: no
// path is followed through a link, and what is mounted is what was opened, on
// what was opened. If something is gone, no box is made.
func (b *builder) pins(all []pin) {
	if len(all) == 0 {
		return
	}
	b.Step("open the workspace to pin what is protected")
	root := b.Call(unix.SYS_OPENAT, atFDCWD, in(Workspace), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW).Save()
	how := b.Words(unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0, beneath) // struct open_how, openat2(2)
	for _, one := range all {
		b.Step("pin " + plain(one.Path) + " of the workspace")
		at := b.Call(unix.SYS_OPENAT2, root, one.Path, how, unix.SizeofOpenHow).Save()
		tree := b.Call(unix.SYS_OPEN_TREE, at, "", unix.OPEN_TREE_CLONE|unix.O_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE).Save()
		if !one.Writable {
			b.attr(tree, unix.AT_RECURSIVE, mountAttr{set: unix.MOUNT_ATTR_RDONLY})
		}
		b.Call(unix.SYS_MOVE_MOUNT, tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
		b.Call(unix.SYS_CLOSE, tree)
		b.Call(unix.SYS_CLOSE, at)
	}
	b.Call(unix.SYS_CLOSE, root)
}
