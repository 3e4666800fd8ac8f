package protect

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Everything here works beneath a directory that is kept open, in a tree that a hostile
// program may change at any time: no path is ever resolved through a link, nothing but
// regular files and directories is opened, and every read and walk has a bound (openat2(2),
// RESOLVE_BENEATH).

// Bounds of what is read, kept and removed in one look.
const (
	maxConfigText = 1 << 20 // bytes of a file that is read
	maxKeptText   = 8 << 20 // bytes that are kept to be restored
	maxKeptFiles  = 4096    // files that are kept or compared
	maxKeptDepth  = 16
	maxRemoved    = 100_000 // entries that one look removes
	maxListed     = 65_536  // entries of a directory that are read
)

// errBound is returned if something exceeds its bound.
var errBound = errors.New("more than belljar reads")

// beneath is how a path is resolved that a box could have made.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// openBeneath opens what is at path beneath dir, with no link on the way.
func openBeneath(dir int, path string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags) | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Mode:    uint64(mode),
		Resolve: beneath,
	}
	for {
		fd, err := unix.Openat2(dir, path, &how)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// openDir opens a directory to work beneath it. flags is O_PATH, or 0 if the directory is
// also listed.
func openDir(dir *os.File, path string, flags int) (*os.File, error) {
	fd, err := openBeneath(int(dir.Fd()), path, flags|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// statAt returns the state of name in dir, without following a link; nil if name is absent.
func statAt(dir *os.File, name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR):
		return nil, nil //nolint:nilnil // a missing file is not an error
	case err != nil:
		return nil, err
	}
	return &st, nil
}

func kindOf(st *unix.Stat_t) uint32 { return st.Mode & unix.S_IFMT }

func isDir(st *unix.Stat_t) bool     { return st != nil && kindOf(st) == unix.S_IFDIR }
func isRegular(st *unix.Stat_t) bool { return st != nil && kindOf(st) == unix.S_IFREG }
func isLink(st *unix.Stat_t) bool    { return st != nil && kindOf(st) == unix.S_IFLNK }

// ident distinguishes one inode from another.
type ident struct{ dev, ino uint64 }

func identOf(st *unix.Stat_t) ident { return ident{st.Dev, st.Ino} }

// readAt reads a regular file whole; most is its largest size, in bytes.
func readAt(dir *os.File, path string, most int64) ([]byte, error) {
	// O_NONBLOCK: the file may have become a FIFO meanwhile, and opening that would wait
	// for a writer (fifo(7)).
	fd, err := openBeneath(int(dir.Fd()), path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if !isRegular(&st) {
		return nil, unix.EINVAL
	}
	if st.Size > most {
		return nil, errBound
	}
	text := make([]byte, st.Size+1)
	n := 0
	for n < len(text) {
		m, err := unix.Read(fd, text[n:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case m == 0:
			return text[:n], nil
		}
		n += m
	}
	return nil, errBound // the file grew while it was read
}

// listDir returns the names in a directory, sorted. If their number exceeds most, it
// returns as many as most, and errBound.
func listDir(dir *os.File, most int) ([]string, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(most + 1)
	switch {
	case len(names) > most:
		return names[:most], errBound
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// dirent is an entry of a directory that getdents64(2) returned.
type dirent struct {
	name string
	ino  uint64
	kind byte
}

// mayBeDir reports whether the entry can be a directory, or a link to one: not every file
// system reports the kind.
func (e dirent) mayBeDir() bool {
	return e.kind == unix.DT_DIR || e.kind == unix.DT_LNK || e.kind == unix.DT_UNKNOWN
}

// eachEntry calls visit for the entries of a directory, in no order, until visit returns
// false. Only a few entries are in memory at a time.
func eachEntry(dir *os.File, visit func(dirent) bool) error {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return err
	}
	buf := make([]byte, 32<<10)
	for {
		if end, err := someEntries(dir, buf, visit); end || err != nil {
			return err
		}
	}
}

// someEntries is eachEntry for as many of the next entries as buf has room for. It reports
// whether the directory is at its end, or visit has returned false.
func someEntries(dir *os.File, buf []byte, visit func(dirent) bool) (end bool, err error) {
	n, err := unix.Getdents(int(dir.Fd()), buf)
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	if n <= 0 || err != nil {
		return true, err
	}
	for rest := buf[:n]; len(rest) > 0; {
		// struct linux_dirent64: ino, off, reclen, type, name
		size := int(binary.NativeEndian.Uint16(rest[16:]))
		e := dirent{ino: binary.NativeEndian.Uint64(rest), kind: rest[18], name: unix.ByteSliceToString(rest[19:size])}
		rest = rest[size:]
		if e.name != "." && e.name != ".." && !visit(e) {
			return true, nil
		}
	}
	return false, nil
}

func readlinkAt(dir *os.File, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// mayWrite runs change, which makes or removes an entry of dir. A box that runs as the
// workspace's owner can remove the owner's right to do so; mayWrite restores the right
// during the change.
func mayWrite(dir *os.File, change func() error) error {
	err := change()
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	var st unix.Stat_t
	if unix.Fstat(int(dir.Fd()), &st) != nil {
		return err
	}
	if chmod(dir, st.Mode|0o700) != nil {
		return err
	}
	defer func() { _ = chmod(dir, st.Mode) }()
	return change()
}

// chmod uses the descriptor's link in /proc, which leads to exactly this inode:
// fchmod refuses descriptors opened with O_PATH.
func chmod(f *os.File, mode uint32) error {
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), mode&0o7777)
}

// openToList opens a directory to list it. If its owner has no right to do so, openToList
// gives the right to the owner first.
func openToList(dir *os.File, name string) (*os.File, error) {
	f, err := openDir(dir, name, 0)
	if !errors.Is(err, unix.EACCES) {
		return f, err
	}
	held, pathErr := openDir(dir, name, unix.O_PATH)
	if pathErr != nil {
		return nil, err
	}
	defer held.Close()
	var st unix.Stat_t
	if unix.Fstat(int(held.Fd()), &st) != nil || chmod(held, st.Mode|0o700) != nil {
		return nil, err
	}
	return openDir(held, ".", 0)
}

// removeAt removes name from dir, with everything in it. However deep the tree is, only two
// directories are open at a time: what is deeper is moved up first. left is the number of
// entries that may still be removed.
func removeAt(dir *os.File, name string, left *int) error {
	err := unlink(dir, name)
	if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return err
	}
	top, err := openToList(dir, name)
	if err != nil {
		return gone(err)
	}
	defer top.Close()
	for {
		names, err := listDir(top, 1024)
		if err != nil && !errors.Is(err, errBound) {
			return err
		}
		if len(names) == 0 {
			return unlink(dir, name)
		}
		for _, n := range names {
			if *left--; *left < 0 {
				return errBound
			}
			err := unlink(top, n)
			if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
				err = moveUp(top, n, left)
			}
			if err != nil {
				return err
			}
		}
	}
}

// moveUp empties the directory name of top, at most 1,024 entries at a time: it removes the
// entries, and moves directories that are not empty into top.
func moveUp(top *os.File, name string, left *int) error {
	sub, err := openToList(top, name)
	if err != nil {
		return gone(err)
	}
	defer sub.Close()
	names, err := listDir(sub, 1024)
	if err != nil && !errors.Is(err, errBound) {
		return err
	}
	for _, n := range names {
		if *left--; *left < 0 {
			return errBound
		}
		err := unlink(sub, n)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
			// A directory that moves gets a new "..", which requires the right to write to
			// the directory (rename(2), EACCES).
			if d, openErr := openToList(sub, n); openErr == nil {
				err = mayWrite(d, func() error {
					return unix.Renameat(int(sub.Fd()), n, int(top.Fd()), scratchName())
				})
				d.Close()
			}
		}
		if err := gone(err); err != nil {
			return err
		}
	}
	return nil
}

// unlink removes one entry, a directory only if it is empty.
func unlink(dir *os.File, name string) error {
	return gone(mayWrite(dir, func() error {
		err := unix.Unlinkat(int(dir.Fd()), name, 0)
		if errors.Is(err, unix.EISDIR) {
			err = unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR)
		}
		return err
	}))
}

// gone returns err, or nil if err says that what should be removed does not exist.
func gone(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// scratchName returns a name that nobody can guess. A file with such a name is
// renamed or removed before the look ends.
func scratchName() string { return ".belljar-" + rand.Text() }

// replaceAt puts a file in the place of name, whatever was there except a directory.
func replaceAt(dir *os.File, name string, text []byte, mode, uid, gid uint32) error {
	return mayWrite(dir, func() error {
		scratch := scratchName()
		fd, err := openBeneath(int(dir.Fd()), scratch, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), scratch)
		defer f.Close()
		_, err = f.Write(text)
		if err == nil {
			err = own(unix.Fchown(fd, int(uid), int(gid)))
		}
		if err == nil {
			// Never set-uid or set-gid, because the text came from a box.
			err = unix.Fchmod(fd, mode&0o777)
		}
		if err == nil {
			err = unix.Renameat(int(dir.Fd()), scratch, int(dir.Fd()), name)
		}
		if err != nil {
			_ = unix.Unlinkat(int(dir.Fd()), scratch, 0)
		}
		return err
	})
}

// own returns the error of giving a file to its owner, or nil if that error does not
// matter. Only root can give a file to another user. A file that an ordinary user makes
// belongs to the right owner from the start, or the file system has no owners.
func own(err error) error {
	if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
		return nil
	}
	return err
}

// rewriteAt gives a file a new text in place of old. The inode stays, and with it its owner
// and mode. If the inode has another name too, the file is replaced instead, because writing
// to the inode would also change the file under that name.
func rewriteAt(dir *os.File, name string, was *unix.Stat_t, old, text []byte) error {
	if was.Nlink != 1 {
		return replaceAt(dir, name, text, was.Mode, was.Uid, was.Gid)
	}
	fd, err := openBeneath(int(dir.Fd()), name, unix.O_WRONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.EACCES) {
		return replaceAt(dir, name, text, was.Mode, was.Uid, was.Gid)
	}
	if err != nil {
		return gone(err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil {
		return err
	}
	if !isRegular(&now) || identOf(&now) != identOf(was) || now.Nlink != 1 {
		return replaceAt(dir, name, text, was.Mode, was.Uid, was.Gid)
	}
	// The file is cut last. A write that fails, for example because a box has filled the disk,
	// then loses only what follows the first difference: what the new text leaves out must not
	// stay, because the next look takes what it finds for a person's work.
	if n, err := f.WriteAt(text, 0); err != nil {
		kept := wholeLines(text[:max(n, common(old, text))])
		return errors.Join(err, f.Truncate(int64(len(kept))))
	}
	return f.Truncate(int64(len(text)))
}

// common returns the length of the beginning that two texts share.
func common(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// wholeLines returns the beginning of a text without its last line if that is cut or goes
// on in the next line, because half a setting can mean something else.
func wholeLines(text []byte) []byte {
	for {
		text = text[:bytes.LastIndexByte(text, '\n')+1]
		line := bytes.TrimRight(text, "\r\n")
		if !bytes.HasSuffix(line, []byte(`\`)) {
			return text
		}
		text = line
	}
}

// sameText reports whether the content of a file is text.
func sameText(dir *os.File, name string, text []byte) bool {
	now, err := readAt(dir, name, int64(len(text)))
	return err == nil && bytes.Equal(now, text)
}

// birth identifies a file forever: the number of an inode is used again once it is free,
// but its time of birth is not, and cannot be set (statx(2), stx_btime; zero on a file
// system that does not keep it).
type birth struct {
	ident
	born int64 // time of birth in nanoseconds
}

func birthOf(f *os.File) (birth, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_SYNC_AS_STAT, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return birth{}, fmt.Errorf("statx: %w", err)
	}
	b := birth{ident: ident{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}}
	if st.Mask&unix.STATX_BTIME != 0 {
		b.born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return b, nil
}
