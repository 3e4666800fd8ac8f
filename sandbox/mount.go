package sandbox

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// mountAttr is struct mount_attr, mount_setattr(2).
type mountAttr struct{ set, propagation uint64 }

// openTree clones the mount tree at name, beneath the directory dir, and returns the
// descriptor of the clone. The clone is attached nowhere, is private, and has attr applied.
// openTree needs CAP_SYS_ADMIN over the caller's mount namespace (open_tree(2)). idmap is a
// user namespace, or nil.
func openTree(dir int, name string, attr mountAttr, idmap *os.File) (int, error) {
	fd, err := openTreeFlags(dir, name, attr, idmap, unix.AT_RECURSIVE)
	if errors.Is(err, unix.EINVAL) && idmap != nil {
		// A file system that is mounted below may not support idmapping; the workspace
		// itself may still support it.
		return openTreeFlags(dir, name, attr, idmap, 0)
	}
	return fd, err
}

func openTreeFlags(dir int, name string, attr mountAttr, idmap *os.File, recursive uint) (int, error) {
	flags := unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | recursive
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	fd, err := unix.OpenTree(dir, name, flags)
	if err != nil {
		return -1, err
	}
	set := unix.MountAttr{Attr_set: attr.set, Propagation: attr.propagation}
	if idmap != nil {
		set.Attr_set |= unix.MOUNT_ATTR_IDMAP
		set.Userns_fd = uint64(idmap.Fd())
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|recursive, &set); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
