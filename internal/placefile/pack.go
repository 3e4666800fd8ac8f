package placefile

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"

	"belljar.dev/internal/store"
)

// Manifest describes a stream, at its beginning.
type Manifest struct {
	Form    int       `json:"belljar_place"` // version of the stream's format
	Place   string    `json:"place"`
	Made    time.Time `json:"made"`
	Version string    `json:"version,omitempty"` // version of the program that made the stream
}

// ending is the last entry. Without an ending, a stream that was cut off between two
// entries would look complete.
type ending struct {
	Sizes

	Skipped int64  `json:"skipped,omitempty"` // number of sockets, pipes and devices, which are not in the stream
	SHA256  string `json:"sha256"`
}

const (
	form         = 1
	manifestName = "belljar-place.json"
	endingName   = "belljar-place-end.json"
	maxNote      = 4096 // most bytes of a manifest or an ending
	copyName     = "db/packing.db"
)

// Measure returns the sizes of a place, or a Refusal if the place cannot be packed. The
// place may be in use.
func Measure(ctx context.Context, dir string) (Sizes, error) {
	return usual.measure(ctx, dir)
}

func (b bounds) measure(ctx context.Context, dir string) (Sizes, error) {
	w := walker{memory: memory{b.names}}
	for _, part := range parts {
		// a part that is removed in the meantime
		if err := w.walk(ctx, dir, part); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return w.Sizes, err
		}
	}
	return w.Sizes, nil
}

// Pack writes the place in a directory to out. No other process may change the place, or
// have its database open, until Pack returns.
func Pack(ctx context.Context, dir string, m Manifest, out io.Writer) error {
	return usual.pack(ctx, dir, m, out)
}

func (b bounds) pack(ctx context.Context, dir string, m Manifest, out io.Writer) error {
	m.Form = form
	with, remove, err := copyDatabase(ctx, filepath.Join(dir, State))
	if err != nil {
		return err
	}
	defer remove()
	z, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	p := &packer{out: tar.NewWriter(z), digest: newDigest(), buffer: make([]byte, 128<<10)}
	if err := p.note(manifestName, m); err != nil {
		return errors.Join(err, z.Close())
	}
	w := walker{memory: memory{b.names}, database: with, visit: func(root *os.Root, f *file) error { return p.add(ctx, root, f) }}
	for _, part := range parts {
		if err := w.walk(ctx, dir, part); err != nil {
			return errors.Join(err, z.Close())
		}
	}
	err = p.note(endingName, ending{w.Sizes, w.skipped, p.digest.String()})
	return errors.Join(err, p.out.Close(), z.Close())
}

// copyDatabase makes a copy of a database, including its log. It returns the path of the
// copy below the state directory; the path is empty if the state has no database.
func copyDatabase(ctx context.Context, state string) (name string, remove func(), err error) {
	file := filepath.Join(state, copyName)
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a process that was killed
		return "", nil, err
	}
	s := store.New(state)
	err = s.Copy(ctx, file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", func() {}, s.Close()
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return "", nil, err
	}
	return copyName, func() { _ = os.Remove(file) }, nil // if the copy cannot be removed now, the next Pack removes it
}

type packer struct {
	out    *tar.Writer
	digest *digest
	buffer []byte
}

// note writes a manifest or an ending.
func (p *packer) note(name string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if err := p.out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o600, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = p.out.Write(text)
	return err
}

// add writes the entry of a file.
func (p *packer) add(ctx context.Context, root *os.Root, f *file) error {
	h := &tar.Header{Name: f.name, Mode: int64(f.mode.Perm()), ModTime: f.mtime, Format: tar.FormatPAX}
	switch f.kind() {
	case 'h':
		h.Typeflag, h.Linkname = tar.TypeLink, f.to
	case 'd':
		h.Typeflag, h.Name = tar.TypeDir, f.name+"/"
	case 'l':
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.to
	default:
		return p.content(ctx, root, f, h)
	}
	p.digest.add(f, nil)
	return p.out.WriteHeader(h)
}

// content writes a regular file.
func (p *packer) content(ctx context.Context, root *os.Root, f *file, h *tar.Header) error {
	in, err := f.open(root)
	if err != nil {
		return err
	}
	defer in.Close()
	h.Typeflag, h.Size = tar.TypeReg, f.size
	if err := p.out.WriteHeader(h); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(p.out, sum), &content{ctx: ctx, Reader: io.LimitReader(in, f.size)}, p.buffer)
	if err != nil || n != f.size {
		return errors.Join(err, fmt.Errorf("%q has %d of %d bytes", clip(f.name), n, f.size))
	}
	p.digest.add(f, sum.Sum(nil))
	return nil
}

// content reads the content of a file. A copy of it ends with ctx, however long the file
// is. content has no WriteTo, so io.CopyBuffer uses the given buffer.
type content struct {
	io.Reader

	ctx   context.Context //nolint:containedctx // a content lives for one copy
	alive func()          // called for each part that is read; may be nil
}

// Read reads a part of the content.
func (c *content) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	if c.alive != nil {
		c.alive()
	}
	return c.Reader.Read(p)
}

// decode reads a manifest or an ending, and refuses unknown members.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
