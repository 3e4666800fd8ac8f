package placefile

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"belljar.dev/internal/store"
)

// maxWindow is the most memory for the decoder's window.
const maxWindow = 32 << 20

// archive is the tar archive of a stream.
type archive struct {
	*tar.Reader

	in  *short
	end func()
}

// open reads a stream; most is its largest size, in bytes. The caller calls end.
func open(in io.Reader, most int64) (*archive, error) {
	from := &short{in, most}
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(2*maxWindow))
	if err != nil {
		return nil, err
	}
	return &archive{tar.NewReader(z), from, z.Close}, nil
}

// why returns the real reason of an error: the decoder takes any error within an empty
// frame for the end of the stream.
func (a *archive) why(err error) error {
	if err != nil && a.in.left < 0 {
		return refuse("it is longer than the stream of any place")
	}
	return err
}

// short is a stream with a bound, because zstd has frames that contain nothing.
type short struct {
	in   io.Reader
	left int64
}

// Read reads from the stream. Beyond the bound it returns io.ErrUnexpectedEOF.
func (s *short) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if s.left -= int64(n); s.left < 0 {
		return 0, io.ErrUnexpectedEOF // see archive.why
	}
	return n, err
}

// Unpack makes the place of a stream in an empty directory. When it returns without an
// error, the whole place is on the disk, and was compared with the digest of the stream. An
// error that is a Refusal means that another try with the same stream also fails. The error
// for a stream that was cut off is not a Refusal. Unpack calls alive whenever it makes
// progress, also while it compares.
func Unpack(ctx context.Context, dir string, in io.Reader, alive func()) (Manifest, error) {
	return usual.unpack(ctx, dir, in, alive)
}

func (b bounds) unpack(ctx context.Context, dir string, in io.Reader, alive func()) (Manifest, error) {
	stream, err := open(in, b.stream)
	if err != nil {
		return Manifest{}, err
	}
	defer stream.end()
	u := &unpacker{in: stream.Reader, alive: alive, memory: memory{b.names}, roots: make(map[string]*os.Root), buffer: make([]byte, block)}
	defer u.close()
	for _, part := range parts {
		if err := os.Mkdir(filepath.Join(dir, part), 0o700); err != nil {
			return Manifest{}, err
		}
		if u.roots[part], err = os.OpenRoot(filepath.Join(dir, part)); err != nil {
			return Manifest{}, err
		}
	}
	m, err := u.manifest()
	if err != nil {
		return Manifest{}, stream.why(err)
	}
	said, err := u.all(ctx)
	if err != nil {
		return Manifest{}, stream.why(err)
	}
	if err := u.finish(); err != nil {
		return Manifest{}, err
	}
	return m, b.verify(ctx, dir, said, alive)
}

// Read returns the manifest of a stream. It neither reads nor checks the rest.
func Read(in io.Reader) (Manifest, error) {
	stream, err := open(in, MaxStream)
	if err != nil {
		return Manifest{}, err
	}
	defer stream.end()
	m, err := (&unpacker{in: stream.Reader}).manifest()
	return m, stream.why(err)
}

// verify compares the place on the disk with the ending of the stream, and syncs the place
// to the disk.
func (b bounds) verify(ctx context.Context, dir string, end ending, alive func()) error {
	d := newDigest()
	w := walker{memory: memory{b.names}, visit: func(root *os.Root, f *file) error {
		alive()
		return read(ctx, d, root, f, alive)
	}}
	for _, part := range parts {
		if err := w.walk(ctx, dir, part); err != nil {
			return err
		}
	}
	if w.Sizes != end.Sizes || d.String() != end.SHA256 {
		return refuse("what was written is not what the stream says: %d files of %d bytes with the digest %.12s, instead of %d of %d with %.12s", w.Files, w.Bytes, d, end.Files, end.Bytes, end.SHA256)
	}
	if _, err := os.Lstat(store.Path(filepath.Join(dir, State))); err == nil {
		s := store.New(filepath.Join(dir, State))
		if err := errors.Join(s.Check(ctx), s.Close()); err != nil {
			return refuse("its database is not whole: %v", err)
		}
	}
	alive()
	root, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return syncAll(root)
}

// syncAll syncs a whole file system to the disk.
func syncAll(f *os.File) error {
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("put the place on the disk: %w", err)
	}
	return nil
}

// read adds an entry on the disk to a digest.
func read(ctx context.Context, d *digest, root *os.Root, f *file, alive func()) error {
	if f.kind() != 'f' {
		d.add(f, nil)
		return nil
	}
	in, err := f.open(root)
	if err != nil {
		return err
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, &content{io.LimitReader(in, f.size), ctx, alive}); err != nil {
		return err
	}
	d.add(f, sum.Sum(nil))
	return nil
}

type unpacker struct {
	Sizes

	in       *tar.Reader
	alive    func()
	memory   memory
	roots    map[string]*os.Root // open directories of the parts, by the names of the parts
	dirs     []late
	buffer   []byte
	unsynced int64 // bytes that were written since the last syncAll
}

// late is a directory that gets its mode and time after its entries.
type late struct {
	root *os.Root
	at   string
	mode fs.FileMode
	time time.Time
}

func (u *unpacker) close() {
	for _, root := range u.roots {
		root.Close()
	}
}

// cut returns another error if a stream ends too early.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the stream is cut off")
	}
	return err
}

// errForeign is the error for a file that is not a packed place.
var errForeign = refuse("it is not a place of belljar; want a file that `belljar place export` has made")

// manifest reads the first entry.
func (u *unpacker) manifest() (m Manifest, err error) {
	h, err := u.in.Next()
	switch {
	case errors.Is(err, io.EOF):
		return m, refuse("it is empty")
	case errors.Is(err, tar.ErrHeader), errors.Is(err, zstd.ErrMagicMismatch), errors.Is(err, zstd.ErrReservedBlockType):
		return m, errForeign
	case err != nil:
		return m, cut(err)
	case h.Name != manifestName:
		return m, errForeign
	}
	switch read, err := u.note(h, &m); {
	case err != nil:
		return m, cut(err)
	case !read || m.Form < 1:
		return m, errForeign
	}
	if m.Form > form {
		return m, refuse("it has the form %d, and this belljar knows %d; use a newer one", m.Form, form)
	}
	return m, nil
}

// note reads a manifest or an ending. It returns false if the text is not valid.
func (u *unpacker) note(h *tar.Header, into any) (bool, error) {
	if h.Size > maxNote {
		return false, nil
	}
	text, err := io.ReadAll(io.LimitReader(u.in, maxNote)) //nolint:forbidigo // the reader has a bound
	return err == nil && decode(text, into) == nil, err
}

// all reads every entry, and returns the ending.
func (u *unpacker) all(ctx context.Context) (end ending, err error) {
	for {
		if ctx.Err() != nil {
			return end, context.Cause(ctx)
		}
		h, err := u.in.Next()
		if err != nil {
			return end, cut(err)
		}
		if h.Name == endingName {
			switch read, err := u.note(h, &end); {
			case err != nil:
				return end, cut(err)
			case !read || end.Sizes != u.Sizes:
				return end, refuse("its files are not those that it lists")
			}
			_, err := u.in.Next() // the ending is the last entry, and its frame is complete
			if !errors.Is(err, io.EOF) {
				return end, refuse("data follow after its end")
			}
			return end, nil
		}
		u.alive()
		if err := u.entry(h); err != nil {
			return end, err
		}
	}
}

// entry makes the file, directory or link of an entry.
func (u *unpacker) entry(h *tar.Header) error {
	name := strings.TrimSuffix(h.Name, "/")
	part, at, below := strings.Cut(name, "/")
	root := u.roots[part]
	if root == nil || !below || !filepath.IsLocal(at) || filepath.Clean(at) != at || len(name) > maxName || strings.Count(at, "/") > maxDepth {
		return refuse("entry %q is not in a place", clip(h.Name))
	}
	u.Files++
	if h.Typeflag == tar.TypeReg {
		u.Bytes += max(h.Size, 0)
	}
	if u.Files > MaxFiles || u.Bytes > MaxBytes {
		return refuse("it has more than %d files or %d bytes", MaxFiles, int64(MaxBytes))
	}
	mode := fs.FileMode(h.Mode) & fs.ModePerm
	if part == State {
		mode &= 0o700
	}
	err := u.make(h, root, part, at, mode)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || escapes(err) {
		return refuse("entry %q cannot be made: %v", clip(h.Name), errors.Unwrap(err))
	}
	return err
}

// escapes reports whether err means that os.Root has refused a name that leads out of it.
func escapes(err error) bool { return err != nil && strings.Contains(err.Error(), "escapes") }

func (u *unpacker) make(h *tar.Header, root *os.Root, part, at string, mode fs.FileMode) error {
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(at, 0o700); err != nil {
			return err
		}
		if err := u.memory.take(at); err != nil {
			return err
		}
		u.dirs = append(u.dirs, late{root, at, mode, h.ModTime})
		return nil
	case tar.TypeReg:
		if err := u.file(root, at, h.Size); err != nil {
			return err
		}
		if err := root.Chmod(at, mode); err != nil {
			return err
		}
		return root.Chtimes(at, h.ModTime, h.ModTime)
	case tar.TypeSymlink:
		if part == Workspace {
			return root.Symlink(h.Linkname, at)
		}
	case tar.TypeLink:
		to, ok := strings.CutPrefix(h.Linkname, part+"/")
		if ok && part == Workspace && filepath.IsLocal(to) {
			if info, err := root.Lstat(to); err != nil || !info.Mode().IsRegular() {
				return refuse("entry %q is a link to %q, which is not a file before it", clip(h.Name), clip(h.Linkname))
			}
			return root.Link(to, at)
		}
	}
	return refuse("entry %q is neither a file, a directory nor a link that a place has", clip(h.Name))
}

// block is the number of bytes that are written at a time. A block of zeros becomes a hole.
const block = 64 << 10

// syncEvery is the number of bytes after which the file system is synced, so that the last
// syncAll does not take minutes without a call of alive.
const syncEvery = 256 << 20

// file writes a new file.
func (u *unpacker) file(root *os.Root, at string, size int64) (err error) {
	f, err := root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for left := size; left > 0; {
		piece := u.buffer[:min(left, block)]
		if _, err := io.ReadFull(u.in, piece); err != nil {
			return cut(err)
		}
		left -= int64(len(piece))
		if zero(piece) {
			_, err = f.Seek(int64(len(piece)), io.SeekCurrent)
		} else {
			_, err = f.Write(piece)
			u.unsynced += int64(len(piece))
		}
		if err == nil && u.unsynced >= syncEvery {
			u.unsynced, err = 0, syncAll(f)
		}
		if err != nil {
			return err
		}
		u.alive()
	}
	return f.Truncate(size)
}

var zeros [block]byte

func zero(piece []byte) bool { return bytes.Equal(piece, zeros[:len(piece)]) }

// finish gives directories their modes and times, the innermost first.
func (u *unpacker) finish() error {
	for _, d := range slices.Backward(u.dirs) {
		if err := d.root.Chtimes(d.at, d.time, d.time); err != nil {
			return err
		}
		if err := d.root.Chmod(d.at, d.mode); err != nil {
			return err
		}
	}
	return nil
}
