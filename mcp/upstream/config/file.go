package config

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ReadFile reads a file below a directory. It never waits for the file, and reads at most
// MaxFile bytes. Agents may have put something else in the file's place: a symbolic link as
// the last part of the path is not followed, and a link that leads out of the directory is
// not followed either; a pipe, a device and a directory are refused.
func ReadFile(dir *os.Root, name string) ([]byte, error) {
	// An os.Root follows links below it, also with O_NOFOLLOW. So the opened file must be
	// the file that Lstat saw, and that must not have been a link.
	named, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if named.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("open %s: it is a symbolic link, which is not followed", name)
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(named, opened) {
		return nil, fmt.Errorf("open %s: the file was replaced while it was opened", name)
	}
	if !opened.Mode().IsRegular() {
		return nil, fmt.Errorf("open %s: it is not a regular file", name)
	}
	var data bytes.Buffer
	n, err := io.Copy(&data, io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, err
	}
	if n > MaxFile {
		return nil, fmt.Errorf("read %s: it has more than the %d bytes that are read", name, MaxFile)
	}
	return data.Bytes(), nil
}
