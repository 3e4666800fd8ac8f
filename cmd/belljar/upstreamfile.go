package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/config"
	"belljar.dev/policies"
)

// maxServersFile is the maximum size in bytes of a file of servers that a command changes.
const maxServersFile = 4 << 20

// serversFile is a file of servers that a command writes. It may be in a directory that
// agents can write. Therefore no part of its path may be a symbolic link: an agent could
// choose which file is written.
type serversFile struct {
	name string // absolute path
	base string // name in the directory dir
	dir  *os.Root
	mode fs.FileMode
	text []byte // nil if the file does not exist
}

// openServers opens the file of --to, or servers.json next to the policy. It creates the
// directory of the policy if needed, but no other directory.
func openServers(to string) (*serversFile, error) {
	if to == "" {
		dir, err := userDir()
		if err != nil {
			return nil, err
		}
		to = filepath.Join(dir, "servers.json")
	}
	name, err := filepath.Abs(to)
	if err != nil {
		return nil, err
	}
	f := &serversFile{name: name, base: filepath.Base(name), mode: 0o600}
	if f.dir, err = openUnlinked(filepath.Dir(name)); err != nil {
		return nil, err
	}
	if err := f.read(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// userDir creates the directory of the user's policy if needed, and returns its path
// without symbolic links.
func userDir() (string, error) {
	dir := config.UserDir()
	if dir == "" {
		return "", errors.New("there is no directory for your configuration: set HOME or XDG_CONFIG_HOME")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// openUnlinked opens a directory whose path must not contain a symbolic link.
func openUnlinked(name string) (*os.Root, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if errors.Is(err, unix.ELOOP) {
		real, _ := filepath.EvalSymlinks(name) // empty for a broken link
		return nil, fmt.Errorf("a link leads to %s, and an agent could have made it: name the directory itself, %s, if you mean that", policies.Clip(name, 200), policies.Clip(real, 200))
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	// the root of the directory that was opened, also if its name leads elsewhere now
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// Close closes the directory.
func (f *serversFile) Close() { _ = f.dir.Close() }

// read reads the text and the permissions of the file.
func (f *serversFile) read() error {
	before, err := f.dir.Lstat(f.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case before.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a link, and an agent could have made it: name the file itself", policies.Clip(f.name, 200))
	}
	file, err := f.dir.OpenFile(f.base, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && !os.SameFile(before, info) {
		err = fmt.Errorf("%s was replaced while it was opened", policies.Clip(f.name, 200))
	}
	if err != nil {
		return err
	}
	f.mode = info.Mode().Perm()
	f.text, err = readRegular(file, f.name, maxServersFile)
	return err
}

// replace replaces the file as a whole with a text. An existing file keeps its permissions;
// a new file is readable only by its owner.
func (f *serversFile) replace(text []byte) (err error) {
	temporary := ".belljar-" + rand.Text()
	next, err := f.dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.dir.Remove(temporary))
		}
	}()
	_, err = next.Write(text)
	if err = errors.Join(err, next.Chmod(f.mode), next.Sync(), next.Close()); err != nil {
		return err
	}
	return f.dir.Rename(temporary, f.base)
}

// readBounded reads a regular file of at most maxServersFile bytes. An agent may have put
// something else in its place, for example a pipe, from which a read would block.
func readBounded(name string) ([]byte, error) {
	text, _, err := readOpened(name, maxServersFile)
	return text, err
}

// readOpened reads a regular file; most is its largest size, in bytes. It also returns the
// path of the file without symbolic links, as it was when the file was opened: an agent can
// change where the name leads a moment later.
func readOpened(name string, most int64) (text []byte, is string, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if is, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err != nil {
		return nil, "", err
	}
	text, err = readRegular(f, name, most)
	return text, is, err
}

// readRegular reads an open file, which must be a regular file; most is its largest size,
// in bytes.
func readRegular(f *os.File, name string, most int64) ([]byte, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", policies.Clip(name, 200))
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1)) //nolint:forbidigo // bounded
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than the %d bytes that are read", policies.Clip(name, 200), most)
	}
	return text, err
}
