package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"belljar.dev/internal/config"
	"belljar.dev/internal/diskfile"
	"belljar.dev/policies"
)

// maxServersFile bounds a file of servers that is read to be written again.
const maxServersFile = 4 << 20

// serversFile returns the file of servers that a command writes.
func serversFile(to string) (string, error) {
	if to == "" {
		dir := config.UserDir()
		if dir == "" {
			return "", errors.New("there is no directory for your configuration: name a file with --to")
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
		to = filepath.Join(dir, "servers.json")
	}
	file, err := filepath.Abs(to)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(file); err == nil { // a link stays a link
		file = real
	}
	return file, nil
}

// readBounded reads a regular file. An agent may have put something else into its place, such as a
// pipe at which a reader would wait.
func readBounded(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", policies.Clip(file, 200))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxServersFile+1)) //nolint:forbidigo // bounded
	if err == nil && len(text) > maxServersFile {
		err = fmt.Errorf("%s has more than the %d bytes that are read", policies.Clip(file, 200), maxServersFile)
	}
	return text, err
}

// replaceFile puts a text in place of a file, as a whole. The file keeps its mode; a new one can be
// read by its owner alone.
func replaceFile(file string, text []byte) error {
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	return diskfile.Replace(file, text, mode)
}
