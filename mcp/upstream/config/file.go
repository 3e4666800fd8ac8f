package config

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ReadFile reads a file below a directory, without ever waiting for it and never more
// than MaxFile bytes. Agents may have put something else into its place: a symbolic link
// is not followed where it is the last part, nor anywhere out of the directory; a pipe,
// device or directory is refused.
func ReadFile(dir *os.Root, name string) ([]byte, error) {
	// An os.Root follows links below it, also with O_NOFOLLOW. So what was opened must be
	// what had the name, and that must not have been a link.
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
		return nil, fmt.Errorf("open %s: it was exchanged meanwhile", name)
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
