package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// extractor unpacks layers, one over the other, into a directory that nobody
// else changes. It never follows a link in the tree: it opens the directory of
// every entry by openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, and
// makes the entry there under its last name, which must not exist.
//
// All files belong to the owner of the store. Everybody can read them, and can
// execute those that anybody could execute in the image. A box runs as another
// user, reaches the tree through a read-only mount, and has only one user, so the
// owners of files in the image have no meaning there.
type extractor struct {
	root    int // O_PATH descriptor of the tree
	bytes   int64
	entries int
	left    budget

	layer int // number of the layer, from 1; 0 in an archive without layers
	// paths that the current layer made, with the directories above them; nil for the first
	// layer
	made map[string]bool
	dirs map[string]time.Time // modification times of directories, set at the end

	at     string // path of the directory that was last used
	atFile int    // descriptor of that directory, or -1
	buffer []byte // buffer for copying files

	dropped Dropped
}

// budget is how much more the image may contain.
type budget struct {
	bytes   int64
	entries int
	names   int
}

func newExtractor(dir string, cfg Config) (*extractor, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return &extractor{
		root: fd, left: budget{cfg.Bytes, cfg.Entries, maxNames}, dirs: map[string]time.Time{}, atFile: -1, buffer: make([]byte, 128<<10),
	}, nil
}

func (x *extractor) close() {
	x.leave()
	unix.Close(x.root)
}

// leave closes the directory that was last used, because it may be removed next.
func (x *extractor) leave() {
	if x.atFile >= 0 {
		unix.Close(x.atFile)
	}
	x.at, x.atFile = "", -1
}

// unpack unpacks one archive. layer is 0 for a plain archive, in which no name is a marker.
// It reads r up to the end of the archive.
func (x *extractor) unpack(ctx context.Context, r io.Reader, layer int) error {
	x.layer, x.made = layer, nil
	if layer > 1 {
		x.made = map[string]bool{}
	}
	archive := tar.NewReader(r)
	last := ""
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		switch {
		case err != nil && last == "":
			return fmt.Errorf("it is not a tar archive: %w", err)
		case err != nil:
			return &EntryError{layer, last, fmt.Errorf("what follows it cannot be read: %w", err)}
		}
		last = h.Name
		if err := x.entry(ctx, h, archive); err != nil {
			return &EntryError{layer, h.Name, err}
		}
	}
}

// entry unpacks one entry.
func (x *extractor) entry(ctx context.Context, h *tar.Header, body io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return x.spend(0, 0)
	}
	name, err := entryPath(h.Name)
	if err != nil {
		return err
	}
	if err := x.spend(h.Size, len(h.Name)+len(h.Linkname)); err != nil {
		return err
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "SCHILY.xattr.") || strings.HasPrefix(key, "LIBARCHIVE.xattr.") {
			x.dropped.Xattrs++
		}
	}
	if inDev(name) {
		x.dropped.Devices++
		return nil
	}
	if x.layer > 0 {
		if done, err := x.marker(name); done || err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return x.directory(name, h.ModTime)
	case tar.TypeReg, tar.TypeGNUSparse:
		return x.file(ctx, name, h, body)
	case tar.TypeSymlink:
		return x.symlink(name, h)
	case tar.TypeLink:
		return x.hardLink(name, h.Linkname)
	case tar.TypeChar, tar.TypeBlock:
		return errors.New("it is a device; a box has those of /dev that it may use")
	case tar.TypeFifo:
		return errors.New("it is a named pipe, which no image needs")
	}
	return fmt.Errorf("its type (%q) is one that no image needs", string(rune(h.Typeflag)))
}

// spend takes an entry from the budget.
func (x *extractor) spend(size int64, name int) error {
	x.left.entries--
	x.left.names -= name
	switch {
	case x.left.entries < 0:
		return fmt.Errorf("the image has more than %d entries", x.entries)
	case x.left.names < 0:
		return fmt.Errorf("the names in the image are longer than %d bytes together", maxNames)
	case size < 0 || size > x.left.bytes:
		return fmt.Errorf("it has %d bytes, and the files of the image may have only %d bytes more", size, x.left.bytes)
	}
	x.left.bytes -= size
	x.entries++
	x.bytes += size
	return nil
}

// marker hides what a marker of a layer says, and reports whether name is a marker.
func (x *extractor) marker(name string) (bool, error) {
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	target, all, skip, err := hidden(base)
	if err != nil || skip {
		return true, err
	}
	if target == "" && !all {
		return false, nil
	}
	if x.made == nil {
		return true, nil // there is nothing below the first layer
	}
	fd, err := x.dir(dir, false)
	if errors.Is(err, unix.ENOENT) {
		return true, nil
	}
	if err != nil {
		return true, err
	}
	if all {
		names, err := children(fd)
		if err != nil {
			return true, err
		}
		for _, n := range names {
			if err := x.hide(fd, path.Join(dir, n), n); err != nil {
				return true, err
			}
		}
	} else {
		err = x.hide(fd, path.Join(dir, target), target)
	}
	x.leave()
	return true, err
}

// hide removes what lower layers have under a name, and leaves what the current layer put
// there: a marker applies to lower layers only, whatever its position in its own layer.
func (x *extractor) hide(parent int, name, base string) error {
	if !x.made[name] {
		return removeAll(parent, base)
	}
	fd, err := unix.Openat(parent, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOENT):
		return nil // nothing of lower layers is left there
	case err != nil:
		return fmt.Errorf("open directory %.200q: %w", name, err)
	}
	defer unix.Close(fd)
	names, err := children(fd)
	for _, n := range names {
		if err == nil {
			err = x.hide(fd, name+"/"+n, n)
		}
	}
	return err
}

// mark records that the current layer made name.
func (x *extractor) mark(name string) {
	for x.made != nil && !x.made[name] {
		x.made[name] = true
		name = path.Dir(name)
	}
}

// place makes room for an entry that is not a directory. It removes an older entry
// of that name and never writes to it, since the file may have another link. It
// returns a descriptor of the directory above, and the last name.
func (x *extractor) place(name string) (dir int, base string, err error) {
	if name == "." {
		return -1, "", errors.New("it is the root of the image, and not a directory")
	}
	base = path.Base(name)
	if dir, err = x.dir(path.Dir(name), true); err != nil {
		return -1, "", err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		if err := removeAll(dir, base); err != nil {
			return -1, "", err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR { // it may have been the directory last used
			x.leave()
			if dir, err = x.dir(path.Dir(name), true); err != nil {
				return -1, "", err
			}
		}
	}
	x.mark(name)
	return dir, base, nil
}

func (x *extractor) directory(name string, changed time.Time) error {
	if name != "." {
		parent, err := x.dir(path.Dir(name), true)
		if err != nil {
			return err
		}
		base := path.Base(name)
		err = makeDir(parent, base)
		if errors.Is(err, unix.EEXIST) {
			var st unix.Stat_t
			if err = unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
				if err = removeAll(parent, base); err == nil {
					err = makeDir(parent, base)
				}
			}
		}
		if err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	x.mark(name)
	x.dirs[name] = changed
	return nil
}

// makeDir makes a directory with a mode that no umask changes.
func makeDir(parent int, base string) error {
	if err := unix.Mkdirat(parent, base, 0o755); err != nil {
		return err
	}
	return unix.Fchmodat(parent, base, 0o755, 0) // nobody else could put a link in its place
}

func (x *extractor) file(ctx context.Context, name string, h *tar.Header, body io.Reader) error {
	dir, base, err := x.place(name)
	if err != nil {
		return err
	}
	fd, err := unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("make file: %w", err)
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	// The file itself is not passed: its ReadFrom would make a buffer of its own.
	if _, err := io.CopyBuffer(struct{ io.Writer }{f}, &counted{ctx: ctx, r: body, left: h.Size}, x.buffer); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	mode := os.FileMode(0o644)
	if h.Mode&0o111 != 0 {
		mode = 0o755
	}
	if h.Mode&0o6000 != 0 {
		x.dropped.Setuid++
	}
	if err := f.Chmod(mode); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return setTime(dir, base, h.ModTime)
}

// counted reads at most left bytes, until ctx ends.
type counted struct {
	ctx  context.Context //nolint:containedctx // a reader is all that io.Copy knows, and it lives as long as one call of it
	r    io.Reader
	left int64
}

func (c *counted) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, errors.New("it is longer than its header states")
	}
	return n, err
}

func (x *extractor) symlink(name string, h *tar.Header) error {
	if h.Linkname == "" || len(h.Linkname) > maxTarget || strings.ContainsRune(h.Linkname, 0) {
		return fmt.Errorf("it is a symbolic link to a name of %d bytes, 1 to %d are allowed", len(h.Linkname), maxTarget)
	}
	dir, base, err := x.place(name)
	if err != nil {
		return err
	}
	if err := unix.Symlinkat(h.Linkname, dir, base); err != nil {
		return fmt.Errorf("make symbolic link: %w", err)
	}
	return setTime(dir, base, h.ModTime)
}

func (x *extractor) hardLink(name, target string) error {
	to, err := entryPath(target)
	if err != nil {
		return fmt.Errorf("it is a hard link to %.200q: %w", target, err)
	}
	if to == name {
		return errors.New("it is a hard link to itself")
	}
	parent, err := x.dir(path.Dir(to), false)
	if err != nil {
		return fmt.Errorf("it is a hard link to %.200q: %w", target, err)
	}
	// The next call of dir may close this descriptor, so a copy is used.
	if parent, err = unix.FcntlInt(uintptr(parent), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return fmt.Errorf("make hard link: %w", err)
	}
	defer unix.Close(parent)
	var st unix.Stat_t
	if err := unix.Fstatat(parent, path.Base(to), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("it is a hard link to %.200q, which is not in the image: %w", target, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("it is a hard link to %.200q, which is not a file", target)
	}
	dir, base, err := x.place(name)
	if err != nil {
		return err
	}
	if err := unix.Linkat(parent, path.Base(to), dir, base, 0); err != nil {
		return fmt.Errorf("make hard link to %.200q: %w", target, err)
	}
	return nil
}

// dir returns the descriptor of a directory of the tree. The extractor owns it, and it is
// valid until the next call. With create, missing directories are made.
func (x *extractor) dir(name string, create bool) (int, error) {
	if x.atFile >= 0 && x.at == name {
		return x.atFile, nil
	}
	fd, err := x.open(name)
	if errors.Is(err, unix.ENOENT) && create {
		parent, err := x.dir(path.Dir(name), true)
		if err != nil {
			return -1, err
		}
		if err := makeDir(parent, path.Base(name)); err != nil {
			return -1, fmt.Errorf("make directory %.200q: %w", name, err)
		}
		x.mark(name)
		fd, err = x.open(name)
		if err != nil {
			return -1, err
		}
	} else if err != nil {
		return -1, err
	}
	x.leave()
	x.at, x.atFile = name, fd
	return fd, nil
}

func (x *extractor) open(name string) (int, error) {
	fd, err := unix.Openat2(x.root, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	switch {
	case errors.Is(err, unix.ELOOP):
		return -1, fmt.Errorf("the path to it, %.200q, leads through a symbolic link, which is never followed", name)
	case errors.Is(err, unix.ENOTDIR):
		return -1, fmt.Errorf("the path to it, %.200q, leads through a file that is not a directory", name)
	case err != nil:
		return -1, fmt.Errorf("open directory %.200q: %w", name, err)
	}
	return fd, nil
}

// finish sets the times of directories. They could not be set before, because making a file
// in a directory changes the directory's time.
func (x *extractor) finish() error {
	for name, changed := range x.dirs {
		parent, err := x.dir(path.Dir(name), false)
		if err != nil {
			continue // a later layer has removed it
		}
		var st unix.Stat_t
		base := path.Base(name)
		if unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		if err := setTime(parent, base, changed); err != nil {
			return &EntryError{0, name, err}
		}
	}
	return nil
}

// setTime sets the modification time, which caches in images compare. A time that not every
// file system supports becomes the epoch.
func setTime(dir int, base string, changed time.Time) error {
	sec := changed.Unix()
	if sec < 0 || sec >= 1<<33 {
		sec = 0
	}
	ts := []unix.Timespec{{Sec: sec}, {Sec: sec}}
	if err := unix.UtimesNanoAt(dir, base, ts, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set time: %w", err)
	}
	return nil
}

// children returns the names in a directory.
func children(dir int) ([]string, error) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("read directory: %w", err)
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("read directory: %w", err)
	}
	return names, nil
}

// removeAll removes what is under a name, if there is anything, and follows no link.
func removeAll(parent int, base string) error {
	err := unix.Unlinkat(parent, base, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	fd, openErr := unix.Openat(parent, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if openErr != nil {
		return fmt.Errorf("remove the older entry: %w", err)
	}
	names, err := children(fd)
	for _, n := range names {
		if err == nil {
			err = removeAll(fd, n)
		}
	}
	unix.Close(fd)
	if err != nil {
		return err
	}
	if err := unix.Unlinkat(parent, base, unix.AT_REMOVEDIR); err != nil {
		return fmt.Errorf("remove the older entry: %w", err)
	}
	return nil
}
