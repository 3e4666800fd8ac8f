package workspace

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of a walk over directories.
const (
	maxEntries = 1 << 20 // entries in all directories of one walk
	maxListed  = 1 << 18 // entries of one directory
	maxDepth   = 256     // directories in a path
	maxPath    = 4095    // bytes of a path (PATH_MAX)
)

// errBound ends a walk at its bound.
var errBound = errors.New("more than belljar reads")

// openBeneath opens the file at path beneath dir. It fails if a link is on the way or the
// file is on another mount.
func openBeneath(dir *os.File, path string, flags int) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags) | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	for {
		fd, err := unix.Openat2(int(dir.Fd()), path, &how)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}

// openDir opens a directory beneath dir, for listing it and working in it.
func openDir(dir *os.File, path string) (*os.File, error) {
	fd, err := openBeneath(dir, path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openFile opens a regular file beneath dir for reading.
func openFile(dir *os.File, path string) (*os.File, error) {
	// O_NONBLOCK: the file may have been replaced by a FIFO since it was listed.
	fd, err := openBeneath(dir, path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || kindOf(&st) != unix.S_IFREG {
		unix.Close(fd)
		return nil, &os.PathError{Op: "open", Path: path, Err: errors.New("it is not a regular file any more")}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// statAt returns the status of name in dir without following a link, or nil if name does
// not exist.
func statAt(dir *os.File, name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil //nolint:nilnil // documented: absent is an answer
	case err != nil:
		return nil, fmt.Errorf("look at %q: %w", name, err)
	}
	return &st, nil
}

func kindOf(st *unix.Stat_t) uint32 { return st.Mode & unix.S_IFMT }

func isDir(st *unix.Stat_t) bool     { return st != nil && kindOf(st) == unix.S_IFDIR }
func isRegular(st *unix.Stat_t) bool { return st != nil && kindOf(st) == unix.S_IFREG }
func isLink(st *unix.Stat_t) bool    { return st != nil && kindOf(st) == unix.S_IFLNK }

// listDir returns the names in a directory.
func listDir(dir *os.File) ([]string, error) {
	if _, err := dir.Seek(0, 0); err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(maxListed + 1)
	if err != nil && len(names) == 0 && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(names) > maxListed {
		return nil, fmt.Errorf("a directory of over %d entries: %w", maxListed, errBound)
	}
	return names, nil
}

// readLink returns the target of a link.
func readLink(dir *os.File, name string) (string, error) {
	buf := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buf[:n]), nil
}

// syncDir makes changes of the entries of a directory durable.
func syncDir(root *os.File, name string) error {
	dir, err := openDir(root, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// removeTree removes a file, or a directory with all its content, whatever the permissions
// of its directories are.
func removeTree(dir *os.File, name string) error {
	err := unix.Unlinkat(int(dir.Fd()), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	// A tree may be deeper than the number of descriptors that a process may have, so
	// emptyTree does not recurse: it moves the subdirectories of a directory up.
	if err := emptyTree(dir, name); err != nil {
		return err
	}
	if err := unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

func emptyTree(dir *os.File, name string) error {
	top, err := openToEmpty(dir, name)
	if err != nil {
		return err
	}
	defer top.Close()
	for {
		names, err := listSome(top)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, n := range names {
			err := unix.Unlinkat(int(top.Fd()), n, 0)
			if err == nil || errors.Is(err, unix.ENOENT) {
				continue
			}
			if unix.Unlinkat(int(top.Fd()), n, unix.AT_REMOVEDIR) == nil {
				continue
			}
			if err := raise(top, n); err != nil {
				return err
			}
		}
	}
}

// raise removes the files of the directory name, moves its subdirectories into top, and
// removes the directory.
func raise(top *os.File, name string) error {
	sub, err := openToEmpty(top, name)
	if err != nil {
		return err
	}
	defer sub.Close()
	for {
		names, err := listSome(sub)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			break
		}
		for _, n := range names {
			err := unix.Unlinkat(int(sub.Fd()), n, 0)
			if err == nil || unix.Unlinkat(int(sub.Fd()), n, unix.AT_REMOVEDIR) == nil {
				continue
			}
			// Moving a directory changes its "..", which needs write permission on that
			// directory.
			if err := unix.Fchmodat(int(sub.Fd()), n, 0o700, 0); err != nil {
				return &os.PathError{Op: "remove", Path: n, Err: err}
			}
			if err := unix.Renameat(int(sub.Fd()), n, int(top.Fd()), newID()+newID()); err != nil {
				return &os.PathError{Op: "remove", Path: n, Err: err}
			}
		}
	}
	return unix.Unlinkat(int(top.Fd()), name, unix.AT_REMOVEDIR)
}

// listSome returns some of the names in a directory. It returns no names only if the
// directory is empty.
func listSome(dir *os.File) ([]string, error) {
	const some = 4096
	if _, err := dir.Seek(0, 0); err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(some)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return names, nil
}

// openToEmpty opens one of our directories so that its content can be removed.
func openToEmpty(dir *os.File, name string) (*os.File, error) {
	// fchmodat(2) follows links, so it must be known that name is a directory. In the
	// trash, nothing changes that any more.
	st, err := statAt(dir, name)
	if err == nil && isDir(st) && st.Mode&0o700 != 0o700 {
		err = unix.Fchmodat(int(dir.Fd()), name, 0o700, 0)
	}
	if err != nil {
		return nil, err
	}
	return openDir(dir, name)
}

// Attributes of overlayfs. Names with this prefix belong to overlayfs itself; an attribute
// that a box gives such a name is stored with a second prefix.
const (
	overlayPrefix  = "user.overlay."
	attrOpaque     = overlayPrefix + "opaque"
	attrWhiteout   = overlayPrefix + "whiteout"
	maxAttrs       = 64 << 10 // bytes of a list of names, and of one value (xattr(7))
	maxAttrsOfFile = 256
)

// attr returns an attribute of an open file, or "" if the file does not have it.
func attr(f *os.File, name string) string {
	var buf [64]byte
	n, err := unix.Fgetxattr(int(f.Fd()), name, buf[:])
	if errors.Is(err, unix.ERANGE) {
		return "?" // the value is longer than any that callers compare with
	}
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// attrs returns the user's own attributes of a file.
func attrs(f *os.File) (map[string]string, error) {
	names := make([]byte, maxAttrs)
	n, err := unix.Flistxattr(int(f.Fd()), names)
	if errors.Is(err, unix.ENOTSUP) || n == 0 && err == nil {
		return nil, nil //nolint:nilnil // a file without attributes is not an error
	}
	if err != nil {
		return nil, fmt.Errorf("list attributes: %w", err)
	}
	all := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimRight(string(names[:n]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, "user.") || strings.HasPrefix(name, overlayPrefix) {
			continue
		}
		value := make([]byte, maxAttrs)
		n, err := unix.Fgetxattr(int(f.Fd()), name, value)
		if err != nil {
			return nil, fmt.Errorf("read attribute %q: %w", name, err)
		}
		if all[name] = string(value[:n]); len(all) > maxAttrsOfFile {
			return nil, fmt.Errorf("over %d attributes: %w", maxAttrsOfFile, errBound)
		}
	}
	return all, nil
}

// newID returns a random name that no other file has.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// parentOf opens the directory that contains path, and returns the last element of path.
func parentOf(root *os.File, path string) (*os.File, string, error) {
	at, name := ".", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		at, name = path[:i], path[i+1:]
	}
	dir, err := openDir(root, at)
	return dir, name, err
}
