package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNotPlain is returned by OpenFile for anything that is not a regular file.
var ErrNotPlain = errors.New("not a regular file")

// ErrLink is returned by OpenFile if the path contains a symbolic link.
var ErrLink = errors.New("a symbolic link")

// maxDepthOpened bounds the directories above a file that is opened.
const maxDepthOpened = 128

// OpenFile opens a regular file to read it: the file that the box has at an absolute path,
// whatever that is on the host, in its workspace with the layers of the workspace, in its
// /tmp or in a mount. The file is opened from outside, beneath the box's root (openat2(2),
// RESOLVE_BENEATH). No link is followed, so nothing that a command plants leads anywhere
// else, and a file that the box's user may not read is not opened. Kernel file systems and
// devices have no files here. The file may change while it is read. The error is an
// *fs.PathError, ErrClosed, or the reason why a parked box could not be woken.
func (b *Box) OpenFile(ctx context.Context, name string) (*os.File, error) {
	parts, err := insideRoot(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if err := b.life.stay(ctx); err != nil {
		return nil, err
	}
	defer b.life.waking.RUnlock()
	dir, err := unix.Open(fmt.Sprintf("/proc/%d/root", b.init.process.Pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, b.init.goneOr(name, err)
	}
	defer func() { unix.Close(dir) }()
	// The pid still belongs to the init: only the supervisor reaps it.
	select {
	case <-b.init.gone:
		return nil, ErrClosed
	default:
	}
	if errors.Is(b.init.process.Signal(unix.Signal(0)), os.ErrProcessDone) {
		return nil, ErrClosed
	}
	u := rights{b.sup.root, b.means.uid}
	for _, part := range parts[:len(parts)-1] {
		next, err := u.step(dir, part, unix.O_PATH|unix.O_DIRECTORY, unix.S_IFDIR, 1)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		unix.Close(dir)
		dir = next
	}
	last := parts[len(parts)-1]
	// The file is checked before it is opened: opening a device or a FIFO may have effects.
	looked, err := u.step(dir, last, unix.O_PATH, unix.S_IFREG, 4)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	unix.Close(looked)
	fd, err := u.step(dir, last, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, unix.S_IFREG, 4)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// goneOr returns ErrClosed if the box has ended, and otherwise the error.
func (i *initProc) goneOr(name string, err error) error {
	select {
	case <-i.gone:
		return ErrClosed
	default:
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
}

// insideRoot returns the parts of an absolute path of the box.
func insideRoot(name string) ([]string, error) {
	switch {
	case strings.ContainsRune(name, 0) || len(name) >= unix.PathMax:
		return nil, unix.EINVAL
	case !path.IsAbs(name):
		return nil, fmt.Errorf("%w: the path is not absolute", unix.EINVAL)
	case slices.Contains(strings.Split(name, "/"), ".."):
		return nil, fmt.Errorf("%w: the path has .. in it", unix.EINVAL)
	}
	parts := strings.Split(strings.Trim(path.Clean(name), "/"), "/")
	switch {
	case parts[0] == "":
		return nil, ErrNotPlain
	case len(parts) > maxDepthOpened:
		return nil, unix.ENAMETOOLONG
	case parts[0] == "proc" || parts[0] == "sys" || parts[0] == "dev" && (len(parts) < 2 || parts[1] != "shm"):
		return nil, ErrNotPlain
	}
	return parts, nil
}

// rights are the rights of a box's user.
type rights struct {
	root bool // the supervisor is root, so the kernel does not check rights
	uid  int
}

// step opens one name in a directory, if the file is of the kind and the box's user has the
// right (4 to read, 1 to pass).
func (u rights) step(dir int, name string, flags int, kind, right uint32) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags) | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	fd, err := openat2(dir, name, &how)
	var st unix.Stat_t
	if err == nil {
		if err = unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
		}
	}
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return -1, ErrLink
	case errors.Is(err, unix.ENOTDIR) && isLinkAt(dir, name):
		return -1, ErrLink
	case err != nil:
		return -1, err
	case st.Mode&unix.S_IFMT == unix.S_IFLNK: // O_PATH with O_NOFOLLOW opens the link itself
		err = ErrLink
	case st.Mode&unix.S_IFMT != kind:
		err = ErrNotPlain
	case !u.have(&st, right):
		err = unix.EACCES
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// isLinkAt reports whether a name in a directory is a symbolic link.
func isLinkAt(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// have reports whether the box's user has a right to a file. The kernel allows root
// everything. If the supervisor is not root, it has the rights of the box's user, and the
// kernel checks them.
func (u rights) have(st *unix.Stat_t, right uint32) bool {
	if !u.root {
		return true
	}
	switch uid := uint32(u.uid); {
	case st.Uid == uid:
		right <<= 6
	case st.Gid == uid: // the user's group has the same number
		right <<= 3
	}
	return st.Mode&right == right
}
