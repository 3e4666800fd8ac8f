package placefile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The names of the parts of a place.
const (
	Workspace = "workspace"
	State     = "state"
)

// parts are all parts, in their order in a stream.
var parts = []string{State, Workspace}

// Bounds of a place that is packed or unpacked.
const (
	MaxFiles = 1_000_000
	MaxBytes = 64 << 30 // bytes of all files by their sizes, holes included
	maxDepth = 256
	maxName  = 4096

	// MaxStream is the most bytes of the stream of a place. It allows for contents that
	// cannot be compressed, and for the headers of all files. A front of a fleet forwards
	// more, see fleet.MaxForwarded.
	MaxStream = MaxBytes + 8<<30
	// maxNames is the most bytes of memory for the names that are known at the same time:
	// the names in a directory and in the directories around it, of files with several
	// links, and of directories that are not finished.
	maxNames = 256 << 20
	nameCost = 64 // bytes of memory for a name, in addition to its own bytes
)

// bounds contains the bounds that tests set lower.
type bounds struct{ names, stream int64 }

var usual = bounds{names: maxNames, stream: MaxStream}

// memory is the number of bytes that names may still take.
type memory struct{ left int64 }

// take takes the memory for a name.
func (m *memory) take(name string) error {
	if m.left -= int64(len(name)) + nameCost; m.left < 0 {
		return refuse("the names of its files need more memory than there is for them; shorten the paths of files with several links, or spread the files over more directories")
	}
	return nil
}

// release releases the memory for names.
func (m *memory) release(names []string) {
	for _, name := range names {
		m.left += int64(len(name)) + nameCost
	}
}

// Sizes is the size of a place.
type Sizes struct {
	Files int64 `json:"files"` // number of files, directories and links
	Bytes int64 `json:"bytes"`
}

// Refusal is the error for a place that cannot be packed, or for a stream that cannot be
// unpacked. Another try also fails.
type Refusal struct{ Why string }

func (r *Refusal) Error() string { return r.Why }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// The place of the database. In a stream, its directory contains nothing else.
const (
	databaseDir  = State + "/db"
	databaseName = databaseDir + "/belljar.db"
)

// cache is the directory of data in the state of a place that can be made again. It may
// contain links, and is not in a stream.
const cache = State + "/upstreams"

// file is one entry of a place.
type file struct {
	name  string // path that begins with the part
	at    string // path on the disk, below the part
	mode  fs.FileMode
	size  int64
	to    string // target of a symbolic link, or name of the file to which this is a hard link
	hard  bool
	mtime time.Time
}

// kind returns the letter of the entry's kind in digests.
func (f *file) kind() byte {
	switch {
	case f.hard:
		return 'h'
	case f.mode.IsDir():
		return 'd'
	case f.mode&fs.ModeSymlink != 0:
		return 'l'
	}
	return 'f'
}

// walker visits every file of a place in a fixed order.
type walker struct {
	Sizes

	memory   memory
	database string // path of the file that is packed as the database, below its part; empty for the database itself
	skipped  int64  // number of sockets, pipes and devices
	visit    func(root *os.Root, f *file) error
	links    map[inode]string // names of the files with several links
}

type inode struct{ dev, ino uint64 }

// walk visits the files of a part of a place.
func (w *walker) walk(ctx context.Context, dir, part string) error {
	root, err := os.OpenRoot(path.Join(dir, part))
	if err != nil {
		return err
	}
	defer root.Close()
	w.links = make(map[inode]string)
	return w.dir(ctx, root, part, ".", 0)
}

// dir visits the entries of a directory.
func (w *walker) dir(ctx context.Context, root *os.Root, part, at string, depth int) error {
	if depth > maxDepth {
		return refuse("directory %q is more than %d levels deep", clip(at), maxDepth)
	}
	names, err := w.names(root, at)
	if err != nil {
		return err
	}
	defer w.memory.release(names)
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		f := &file{at: path.Join(at, name)}
		f.name = path.Join(part, f.at)
		switch f.name {
		case cache:
		case databaseDir:
			err = w.databaseIn(root, f)
		default:
			err = w.one(ctx, root, part, f, depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// names returns the names in a directory, sorted. The caller releases their memory. If the
// directory has become a link that leads out of the part, os.Root refuses it.
func (w *walker) names(root *os.Root, at string) (names []string, err error) {
	d, err := root.OpenFile(at, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, unreadable(at, err)
	}
	defer d.Close()
	for {
		some, err := d.Readdirnames(1024)
		names = append(names, some...)
		for _, name := range some {
			if err := w.memory.take(name); err != nil {
				return nil, err
			}
		}
		switch {
		case w.Files+int64(len(names)) > MaxFiles:
			return nil, refuse("it has more than %d files, and more cannot be moved", MaxFiles)
		case errors.Is(err, io.EOF):
			slices.Sort(names)
			return names, nil
		case err != nil:
			return nil, err
		}
	}
}

// databaseIn visits the database. No other process may have the database open.
func (w *walker) databaseIn(root *os.Root, dir *file) error {
	from := w.database
	if from == "" {
		from = "db/belljar.db"
	}
	info, err := root.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, refuse("the database is not a regular file"))
	}
	dir.mode, dir.mtime = fs.ModeDir|0o700, info.ModTime()
	if err := w.add(root, dir); err != nil {
		return err
	}
	return w.add(root, &file{name: databaseName, at: from, mode: 0o600, size: info.Size(), mtime: info.ModTime()})
}

// one visits an entry, and the entries in it if it is a directory.
func (w *walker) one(ctx context.Context, root *os.Root, part string, f *file, depth int) error {
	info, err := root.Lstat(f.at)
	if err != nil {
		return err
	}
	f.mode, f.mtime = info.Mode()&(fs.ModeType|fs.ModePerm), info.ModTime()
	if part == State {
		f.mode &^= 0o077
	}
	if len(f.name) > maxName {
		return refuse("the name of %q has more than %d bytes", clip(f.name), maxName)
	}
	switch {
	case info.IsDir():
		if err := w.add(root, f); err != nil {
			return err
		}
		return w.dir(ctx, root, part, f.at, depth+1)
	case info.Mode()&fs.ModeSymlink != 0:
		if part != Workspace {
			return refuse("%q is a symbolic link, and the state of a place has none", clip(f.name))
		}
		if f.to, err = root.Readlink(f.at); err != nil {
			return err
		}
		f.mode = fs.ModeSymlink
		return w.add(root, f)
	case info.Mode().IsRegular():
		f.size = info.Size()
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 && part == Workspace {
			id := inode{st.Dev, st.Ino}
			if first := w.links[id]; first != "" {
				f.to, f.hard, f.size = first, true, 0
			} else if err := w.memory.take(f.name); err != nil {
				return err
			} else {
				w.links[id] = f.name
			}
		}
		return w.add(root, f)
	}
	w.skipped++ // the process that uses it makes it again
	return nil
}

// add counts an entry, and passes it to visit.
func (w *walker) add(root *os.Root, f *file) error {
	w.Files++
	w.Bytes += f.size
	switch {
	case w.Files > MaxFiles:
		return refuse("it has more than %d files, and more cannot be moved", MaxFiles)
	case f.size < 0 || w.Bytes > MaxBytes:
		return refuse("its files have more than %d bytes, holes included, and more cannot be moved", int64(MaxBytes))
	case w.visit == nil:
		return nil
	}
	return w.visit(root, f)
}

// open opens the content of a regular file.
func (f *file) open(root *os.Root) (*os.File, error) {
	in, err := root.OpenFile(f.at, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, unreadable(f.name, err)
	}
	info, err := in.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.size {
		in.Close()
		return nil, errors.Join(err, fmt.Errorf("%q has changed while it was read", clip(f.name)))
	}
	return in, nil
}

func unreadable(name string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return refuse("%q cannot be read (%v); give its owner the right to read it, with chmod u+r in a box", clip(name), errors.Unwrap(err))
	}
	return err
}

// clip shortens the name of a file for an error text.
func clip(name string) string {
	if len(name) > 200 {
		name = name[:200] + "..."
	}
	return strings.ToValidUTF8(name, "?")
}

// digest is the digest of all entries of a place.
type digest struct{ all hash.Hash }

func newDigest() *digest { return &digest{sha256.New()} }

// add adds an entry. content is the digest of a file's content; nil for every other kind of
// entry.
func (d *digest) add(f *file, content []byte) {
	mode := f.mode.Perm()
	if f.hard || f.mode&fs.ModeSymlink != 0 {
		mode = 0
	}
	fmt.Fprintf(d.all, "%c %q %o %d %q %x\n", f.kind(), f.name, mode, f.size, f.to, content)
}

func (d *digest) String() string { return hex.EncodeToString(d.all.Sum(nil)) }
