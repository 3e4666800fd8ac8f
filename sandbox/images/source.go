package images

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// Source is where an image comes from.
type Source struct {
	// Path is the directory of an OCI image layout, or a file: such a layout
	// in a tar archive, what `docker save` wrote, or an archive of a root file
	// system. Archives may be compressed by gzip, zstd or bzip2.
	Path string
	// Reader, if it is set, is such an archive, in place of Path.
	Reader io.Reader
	// Ref chooses one of several images: the annotation
	// org.opencontainers.image.ref.name, or docker's tag.
	Ref string
}

// layoutDir is an OCI image layout in a directory.
type layoutDir struct{ root *os.Root }

// open opens a file. It never waits, not even for the writer of a pipe.
func (l layoutDir) open(name string) (io.ReadCloser, int64, error) {
	f, err := l.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			err = at.Err // the caller shows the name, which the maker of the image chose
		}
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a file")
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// layoutTar is an image in a tar archive that can be read at any place.
type layoutTar struct {
	file  io.ReaderAt
	files map[string]span
}

type span struct{ at, size int64 }

func (l layoutTar) open(name string) (io.ReadCloser, int64, error) {
	s, ok := l.files[path.Clean(name)]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return io.NopCloser(io.NewSectionReader(l.file, s.at, s.size)), s.size, nil
}

// packed reports whether an archive contains an image, and not a file system, by its first
// entry that is not its root: the top of an image layout has few names, and none of them
// belongs in a root file system.
func packed(r *bufio.Reader) (bool, error) {
	head, err := r.Peek(r.Size())
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	archive := tar.NewReader(bytes.NewReader(head))
	for range 16 {
		h, err := archive.Next()
		if err != nil {
			return false, nil //nolint:nilerr // unpacking it will report the error
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(path.Clean(h.Name), "./"), "/")
		switch first {
		case ".":
			continue
		case "blobs", "oci-layout", "index.json", "manifest.json", "repositories":
			return true, nil
		}
		_, err = digestDir("sha256:" + strings.TrimSuffix(first, ".json"))
		return err == nil, nil
	}
	return false, nil
}

// indexTar finds the files of an image in an archive, while it copies the
// archive to where it can be read at any place.
func indexTar(ctx context.Context, r io.Reader, to *os.File) (layoutTar, error) {
	l := layoutTar{file: to, files: map[string]span{}}
	at := newMeter(ctx, io.TeeReader(r, to)) // archive/tar reads no further than necessary
	archive := tar.NewReader(at)
	last := ""
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return l, nil
		}
		if err != nil {
			return l, &EntryError{0, last, fmt.Errorf("what follows it cannot be read: %w", err)}
		}
		last = h.Name
		name, err := entryPath(h.Name)
		switch {
		case err != nil:
		case len(l.files) >= maxListed:
			err = fmt.Errorf("the archive has over %d files", maxListed)
		case h.Typeflag == tar.TypeReg:
			l.files[name] = span{at.n, h.Size}
			err = sparse(archive, h, at)
		case h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeXGlobalHeader:
			err = errors.New("it is neither a file nor a directory; save the image with a newer version of the program")
		}
		if err != nil {
			return l, &EntryError{0, h.Name, err}
		}
	}
}

// sparse refuses a file that is not in one piece in the archive. It reads the file to its
// end.
func sparse(archive *tar.Reader, h *tar.Header, at *meter) error {
	before := at.n
	if _, err := io.Copy(io.Discard, archive); err != nil {
		return err
	}
	if at.n-before != h.Size {
		return errors.New("it is a sparse file; archive the image without --sparse")
	}
	return nil
}
