package skills

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// folder is an open directory of a source, on the host or in the program.
type folder interface {
	// names returns the names of the entries, sorted.
	names() ([]string, error)
	// sub opens a directory in this folder.
	sub(name string) (folder, error)
	// read reads a regular file below this folder. It is an error if the file's size
	// exceeds most, in bytes.
	read(name string, most int64) ([]byte, error)
	// look returns the stamp of the file or directory name. It follows a link.
	look(name string) (stamp, error)
	close()
}

// stamp is the data of a file that show whether the file was changed.
type stamp struct {
	dir   bool
	file  bool
	size  int64
	inode uint64
	mtime time.Time
}

// open returns the directory of a source; fs.ErrNotExist if it does not exist.
func (s *Source) open() (folder, error) {
	switch {
	case s.FS != nil:
		return embedded{s.FS}, nil
	case s.Beneath == "":
		f, err := os.OpenFile(s.Dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return nil, err
		}
		return hostDir{f}, nil
	}
	base, err := os.OpenFile(s.Beneath, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	return hostDir{base}.sub(s.Dir)
}

// hostDir is a directory of the host. No file outside of it is opened through it
// (openat2(2), RESOLVE_BENEATH), whatever links are created in it in the meantime.
type hostDir struct{ f *os.File }

func (d hostDir) close() { d.f.Close() }

func (d hostDir) at(name string, flags int) (*os.File, error) {
	how := unix.OpenHow{
		Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(int(d.f.Fd()), name, &how)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.EXDEV):
			return nil, ErrOutside
		case errors.Is(err, unix.ELOOP):
			return nil, errors.New("it is a symbolic link that leads back to itself")
		case err != nil:
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
		return os.NewFile(uintptr(fd), name), nil
	}
}

func (d hostDir) names() ([]string, error) {
	if _, err := d.f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := d.f.Readdirnames(maxEntries + 1)
	if err != nil && len(names) == 0 && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(names) > maxEntries {
		return nil, fmt.Errorf("%w: over %d entries", ErrTooBig, maxEntries)
	}
	slices.Sort(names)
	return names, nil
}

func (d hostDir) sub(name string) (folder, error) {
	f, err := d.at(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return hostDir{f}, nil
}

func (d hostDir) read(name string, most int64) ([]byte, error) {
	// O_NONBLOCK: opening a FIFO must not block.
	f, err := d.at(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return regular(f, most)
}

func (d hostDir) look(name string) (stamp, error) {
	f, err := d.at(name, unix.O_PATH)
	if err != nil {
		return stamp{}, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return stamp{}, err
	}
	kind := st.Mode & unix.S_IFMT
	return stamp{dir: kind == unix.S_IFDIR, file: kind == unix.S_IFREG, size: st.Size, inode: st.Ino, mtime: time.Unix(st.Mtim.Unix())}, nil
}

// regular returns the contents of a file, which must be a regular file.
func regular(f fs.File, most int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errKind
	}
	return bounded(f, info.Size(), most)
}

// bounded returns the contents of a file. It is an error if their size exceeds most, in
// bytes.
func bounded(r io.Reader, size, most int64) ([]byte, error) {
	if size > most {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", ErrTooBig, size, most)
	}
	var b strings.Builder
	n, err := io.Copy(&b, io.LimitReader(r, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("%w: more than %d bytes", ErrTooBig, most)
	}
	return []byte(b.String()), err
}

// embedded is a folder that is part of the program.
type embedded struct{ fsys fs.FS }

func (e embedded) close() {}

func (e embedded) names() (names []string, err error) {
	entries, err := fs.ReadDir(e.fsys, ".")
	for _, one := range entries {
		names = append(names, one.Name())
	}
	return names, err
}

func (e embedded) sub(name string) (folder, error) {
	sub, err := fs.Sub(e.fsys, path.Clean(name))
	return embedded{sub}, err
}

func (e embedded) read(name string, most int64) ([]byte, error) {
	f, err := e.fsys.Open(path.Clean(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return regular(f, most)
}

func (e embedded) look(name string) (stamp, error) {
	info, err := fs.Stat(e.fsys, path.Clean(name))
	if err != nil {
		return stamp{}, err
	}
	return stamp{dir: info.IsDir(), file: info.Mode().IsRegular(), size: info.Size()}, nil
}
