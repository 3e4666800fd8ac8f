package images

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Report is the result of an import.
type Report struct {
	Image
	Known    bool   `json:"known"`              // whether it was unpacked before
	Replaced string `json:"replaced,omitempty"` // the digest that the name stood for before
}

// importer is one import.
type importer struct {
	store *Store
	tmp   string // directory of this import below tmp/, removed at its end
	x     *extractor
	known bool // whether the store has its tree, so that nothing was unpacked
}

// Import unpacks an image and gives it a name. An image that had this name loses it. Import waits
// while another import runs. If it fails, the name keeps its image, and unfinished files
// are removed; a finished tree whose name could not be written stays until Prune. If an
// entry of the image is the reason, the error is an *EntryError.
func (s *Store) Import(ctx context.Context, name string, src Source) (Report, error) {
	if err := CheckName(name); err != nil {
		return Report{}, err
	}
	r, err := s.importFrom(ctx, name, src)
	if err != nil {
		return Report{}, fmt.Errorf("import image %q: %w", name, err)
	}
	return r, nil
}

func (s *Store) importFrom(ctx context.Context, name string, src Source) (r Report, err error) {
	l, err := lock(ctx, s.path(importLock))
	if err != nil {
		return r, err
	}
	defer l.Close()
	if err := s.sweep(); err != nil {
		return r, err
	}
	i := &importer{store: s}
	if i.tmp, err = os.MkdirTemp(s.path(tmpDir), "import-"); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(i.tmp)) }()
	root := filepath.Join(i.tmp, "tree", rootName)
	if err := os.MkdirAll(root, 0o755); err != nil { //nolint:gosec // the root of a box, below a directory that is closed
		return r, err
	}
	// MkdirAll applies the umask.
	if err := os.Chmod(root, 0o755); err != nil { //nolint:gosec // the root of a box, below a directory that is closed
		return r, err
	}
	if i.x, err = newExtractor(root, s.cfg); err != nil {
		return r, err
	}
	defer i.x.close()
	img, err := i.read(ctx, src)
	if err != nil {
		return r, err
	}
	if i.known {
		return s.commit(ctx, name, img, "")
	}
	return s.commit(ctx, name, img, filepath.Join(i.tmp, "tree"))
}

// read unpacks a source and returns the record of its image.
func (i *importer) read(ctx context.Context, src Source) (Image, error) {
	r := src.Reader
	if r == nil {
		// Opening a named pipe without O_NONBLOCK would wait for a writer.
		f, err := os.OpenFile(src.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return Image{}, err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return Image{}, err
		}
		switch {
		case info.IsDir():
			return i.readDir(ctx, src)
		case !info.Mode().IsRegular():
			return Image{}, fmt.Errorf("%s is neither a file nor a directory", src.Path)
		}
		r = f
	}
	s, err := openStream(ctx, r, i.most())
	if err != nil {
		return Image{}, err
	}
	defer s.close()
	head := bufio.NewReaderSize(s, 64<<10)
	image, err := packed(head)
	switch {
	case err != nil:
		return Image{}, err
	case image:
		return i.readTar(ctx, head, s, src.Ref)
	}
	return i.readPlain(ctx, head, s)
}

// most bounds the uncompressed bytes of an archive, and of each layer: the files, 4 KiB
// for the headers and the padding of each entry, and 64 MiB for the rest.
func (i *importer) most() int64 {
	return i.store.cfg.Bytes + int64(i.store.cfg.Entries)*4096 + 64<<20
}

func (i *importer) readDir(ctx context.Context, src Source) (Image, error) {
	root, err := os.OpenRoot(src.Path)
	if err != nil {
		return Image{}, err
	}
	defer root.Close()
	if _, err := root.Lstat("index.json"); errors.Is(err, fs.ErrNotExist) {
		return Image{}, fmt.Errorf("%s has no index.json, so it is not an OCI image layout; a root file system is imported as an archive: tar -C %[1]s -c . | belljar image import NAME -", src.Path)
	}
	return i.readLayers(ctx, layoutDir{root}, src.Ref)
}

// readTar unpacks an image that is in an archive.
func (i *importer) readTar(ctx context.Context, r io.Reader, s *stream, ref string) (Image, error) {
	to, err := os.OpenFile(filepath.Join(i.tmp, "archive"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Image{}, err
	}
	defer to.Close()
	l, err := indexTar(ctx, r, to)
	if err != nil {
		return Image{}, err
	}
	if err := s.drain(); err != nil {
		return Image{}, err
	}
	return i.readLayers(ctx, l, ref)
}

// readPlain unpacks an archive of a root file system.
func (i *importer) readPlain(ctx context.Context, r io.Reader, s *stream) (Image, error) {
	if err := i.x.unpack(ctx, r, 0); err != nil {
		return Image{}, err
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return Image{}, err
	}
	if err := s.drain(); err != nil {
		return Image{}, err
	}
	if i.x.entries == 0 {
		return Image{}, errors.New("the archive is empty")
	}
	return i.finish(&plan{digest: s.out.digest()})
}

// readLayers unpacks an image of layers, unless the store has its tree.
func (i *importer) readLayers(ctx context.Context, b blobs, ref string) (Image, error) {
	p, err := describe(ctx, b, ref)
	if err != nil {
		return Image{}, err
	}
	if known, err := i.store.record(p.digest); err == nil {
		i.known = true
		return known, nil
	}
	for n, l := range p.layers {
		diff := ""
		if len(p.diffs) > 0 {
			diff = p.diffs[n]
		}
		if err := i.readLayer(ctx, b, n+1, l, diff); err != nil {
			return Image{}, err
		}
	}
	return i.finish(p)
}

// readLayer unpacks a layer and checks that its size and digests are those that the image
// states.
func (i *importer) readLayer(ctx context.Context, b blobs, n int, l part, diff string) error {
	f, size, err := b.open(l.file)
	if err != nil {
		return fmt.Errorf("layer %d: %s: %w", n, shown(l.file), err)
	}
	defer f.Close()
	if l.size >= 0 && size != l.size {
		return fmt.Errorf("layer %d: %s: it has %d bytes, but the image states %d", n, shown(l.file), size, l.size)
	}
	s, err := openStream(ctx, f, i.most())
	if err != nil {
		return fmt.Errorf("layer %d: %w", n, err)
	}
	defer s.close()
	if err := i.x.unpack(ctx, s, n); err != nil {
		return err
	}
	if err := s.drain(); err != nil {
		return fmt.Errorf("layer %d: %w", n, err)
	}
	if got := s.in.digest(); l.digest != "" && got != l.digest {
		return fmt.Errorf("layer %d: its digest is %s, but the image states %s", n, got, l.digest)
	}
	if got := s.out.digest(); diff != "" && got != diff {
		return fmt.Errorf("layer %d: its digest without compression is %s, but the image states %s", n, got, diff)
	}
	return nil
}

// finish completes the tree for boxes and returns the record of the image.
func (i *importer) finish(p *plan) (Image, error) {
	// Like docker, make the working directory if the image lacks it.
	if dir := strings.TrimPrefix(p.runtime.Dir, "/"); dir != "" {
		if _, err := statIn(i.x.root, dir); errors.Is(err, unix.ENOENT) {
			if err := i.x.directory(dir, time.Unix(0, 0)); err != nil {
				return Image{}, fmt.Errorf("make its working directory %s: %w", p.runtime.Dir, err)
			}
		}
	}
	if err := i.x.finish(); err != nil {
		return Image{}, err
	}
	return Image{
		Digest: p.digest, Bytes: i.x.bytes, Entries: i.x.entries, Created: time.Now().UTC().Truncate(time.Second),
		Runtime: p.runtime, Dropped: i.x.dropped,
	}, nil
}

// commit puts a tree in its place, unless the store has one there, and gives it its name.
func (s *Store) commit(ctx context.Context, name string, img Image, tree string) (Report, error) {
	dir, err := digestDir(img.Digest)
	if err != nil {
		return Report{}, err
	}
	if tree != "" {
		if err := writeRecord(tree, img); err != nil {
			return Report{}, err
		}
	}
	l, err := lock(ctx, s.path(lockName))
	if err != nil {
		return Report{}, err
	}
	defer l.Close()
	r := Report{Known: true}
	if r.Image, err = s.record(img.Digest); err != nil {
		if tree == "" {
			return Report{}, fmt.Errorf("%w: it was removed at the same time", err)
		}
		if err := s.replace(dir, tree); err != nil {
			return Report{}, err
		}
		r.Image, r.Known = img, false
	}
	r.Name = name
	if old, err := s.digest(name); err == nil && old != img.Digest {
		r.Replaced = old
	}
	// The file is written under another name and renamed, so that no reader finds half a
	// digest.
	part := s.path(namesDir, "."+nameFile(name))
	err = writeDurable(part, []byte(img.Digest+"\n"))
	if err == nil {
		err = os.Rename(part, s.path(namesDir, nameFile(name)))
	}
	if err != nil {
		return Report{}, errors.Join(err, os.RemoveAll(part))
	}
	return r, nil
}

// replace puts a tree in its place. An older tree there has no record, so nobody
// uses it. The caller holds the lock.
func (s *Store) replace(dir, tree string) error {
	old, err := s.lockTree(dir)
	switch {
	case err == nil:
		defer old.Close()
		if err := s.discard(dir); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return os.Rename(tree, s.path(treesDir, dir))
}

// writeRecord makes a tree complete and durable: a name must lead to a whole tree
// even after a crash.
func writeRecord(tree string, img Image) error {
	text, err := json.MarshalIndent(img, "", "  ")
	if err != nil {
		return err
	}
	if err := writeDurable(filepath.Join(tree, recordName), append(text, '\n')); err != nil {
		return err
	}
	f, err := os.Open(tree)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", tree, err)
	}
	return nil
}

// writeDurable writes a small file, in place of what a crash may have left.
func writeDurable(path string, text []byte) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}
