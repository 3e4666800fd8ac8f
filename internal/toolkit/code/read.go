package code

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Reader reads the texts of a tree's files. It keeps the directory of the last file open,
// because the next file is mostly in the same directory. Only one goroutine at a time may
// use a Reader.
type Reader struct {
	root *os.Root
	dir  *os.File
	path string // path of dir
	buf  []byte // contents of the last text
}

// NewReader returns a Reader of the files of a directory. The caller must close the Reader.
func NewReader(root *os.Root) *Reader { return &Reader{root: root} }

// Close releases the directory that the Reader keeps open. The root stays open.
func (r *Reader) Close() error {
	if r.dir == nil {
		return nil
	}
	err := r.dir.Close()
	r.dir = nil
	return err
}

// Read returns the text of a file, or the reason why it cannot be read. It follows no link,
// and reads only regular files.
func (r *Reader) Read(file string) (string, *Gap) {
	dir, name := path.Split(file)
	if err := r.enter(dir); err != nil {
		return "", &Gap{Path: file, Field: "file", Reason: unreadable}
	}
	text, size, err := readFile(r.dir, name, MaxFile+1, &r.buf)
	switch {
	case err != nil:
		return "", &Gap{Path: file, Field: "file", Reason: unreadable}
	case size > MaxFile || len(text) > MaxFile:
		return "", &Gap{Path: file, Field: "file", Reason: "larger than 5 MiB"}
	}
	return text, nil
}

const unreadable = "left out by the policy or not readable"

// enter opens the directory of a path, one name after the other, so that no link is
// followed.
func (r *Reader) enter(dir string) error {
	if r.dir != nil && r.path == dir {
		return nil
	}
	if err := r.Close(); err != nil {
		return err
	}
	at, err := r.root.Open(".")
	if err != nil {
		return err
	}
	defer at.Close()
	if r.dir, err = openPath(at, dir); err != nil {
		return err
	}
	r.path = dir
	return nil
}

// openPath opens a directory below another one, one name after the other, so that no link
// is followed. The path ends with a slash, or is empty.
func openPath(in *os.File, dir string) (*os.File, error) {
	at, err := openDir(in, ".")
	for err == nil && dir != "" {
		name, rest, _ := strings.Cut(dir, "/")
		if name == ".." || name == "" {
			at.Close()
			return nil, fmt.Errorf("%q: not a path below a directory", dir)
		}
		above := at
		at, err = openDir(above, name)
		above.Close()
		dir = rest
	}
	return at, err
}

// openDir opens a directory in another directory, unless it is a link.
func openDir(in *os.File, name string) (*os.File, error) {
	fd, err := openIn(in, name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// readFile returns the beginning of a regular file in a directory, and the file's size.
// most is the largest number of bytes that it returns. A file that was replaced by a pipe,
// a socket or a device after it was listed is not read and does not block. The buffer is
// reused if it is large enough.
func readFile(in *os.File, name string, most int, buffer *[]byte) (text string, size int64, err error) {
	fd, err := openIn(in, name, unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return "", 0, err
	}
	defer unix.Close(fd)
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return "", 0, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	if info.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", 0, &os.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	}
	want := int(min(int64(most), info.Size+1)) // one byte more than the size, to find the end
	if cap(*buffer) < want {
		*buffer = make([]byte, max(want, minBuffer))
	}
	buf := (*buffer)[:want]
	n := 0
	for n < len(buf) {
		got, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return "", 0, &os.PathError{Op: "read", Path: name, Err: err}
		}
		if n += got; got == 0 || int64(n) == info.Size { // bytes that are appended from now on do not belong to the text
			break
		}
	}
	return string(buf[:n]), info.Size, nil
}

// minBuffer is the smallest size of a new buffer for texts.
const minBuffer = 64 << 10

// openIn opens an entry of a directory, unless it is a link.
func openIn(in *os.File, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(int(in.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: name, Err: err}
		}
		return fd, nil
	}
}
