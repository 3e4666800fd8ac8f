// Package keyfile keeps a random key in a file that only its user can read. Such a key
// protects the contents of the database: a copy of the database without the key is useless.
package keyfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Size is the length of a key in bytes.
const Size = 32

// ErrUnfit is wrapped by the error for a file that exists but is not used: it is not a file
// of this user, others could read it, or its size is wrong.
var ErrUnfit = errors.New("it cannot be used as a key")

// Read returns the key in a file. The error wraps fs.ErrNotExist if the file does not
// exist.
func Read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s is a link: %w", path, ErrUnfit)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular() || !ok || int(sys.Uid) != os.Geteuid():
		return nil, fmt.Errorf("%s is not a file of this user: %w", path, ErrUnfit)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s has the mode %#o, so other users could read it: %w", path, info.Mode().Perm(), ErrUnfit)
	}
	key := make([]byte, Size+1)
	if n, err := io.ReadFull(f, key); !errors.Is(err, io.ErrUnexpectedEOF) || n != Size {
		return nil, fmt.Errorf("%s does not have %d bytes: %w", path, Size, ErrUnfit)
	}
	return key[:Size], nil
}

// Make returns the key in a file, and makes the file if it does not exist. The file gets
// its name only when it is complete, so two processes that call Make at the same time get
// the same key. A process that is killed may leave a file whose name is the name of the key
// file, a dot and a suffix.
func Make(path string) ([]byte, error) {
	key, err := Read(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	state := filepath.Dir(path)
	f, err := os.CreateTemp(state, filepath.Base(path)+".*") // the mode is 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	key = make([]byte, Size)
	rand.Read(key)
	_, err = f.Write(key)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	dir, err := os.Open(state)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return nil, err
	}
	return Read(path)
}

// Create makes a key in a file that does not exist, in a directory that no other process
// uses yet. When Create returns, the file is on the disk; the caller must sync the
// directory.
func Create(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	key := make([]byte, Size)
	rand.Read(key)
	_, err = f.Write(key)
	return errors.Join(err, f.Sync(), f.Close())
}
