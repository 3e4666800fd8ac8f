package auth

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

// keyFile is the file in the state directory with the key of the HMACs. It is not in the
// database: a copy of that alone is of no use for checking guesses.
const (
	keyFile  = "token.key"
	keyBytes = 32
)

// readKey returns the key of a state directory; an error that is fs.ErrNotExist where
// there is none.
func readKey(state string) ([]byte, error) {
	path := filepath.Join(state, keyFile)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("key of tokens: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("key of tokens: %w", err)
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular() || !ok || int(sys.Uid) != os.Geteuid():
		return nil, fmt.Errorf("key of tokens: %s is not a file of this user", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("key of tokens: %s has the mode %#o, so other users could read it; revoke all tokens and remove it", path, info.Mode().Perm())
	}
	key := make([]byte, keyBytes+1)
	if n, err := io.ReadFull(f, key); !errors.Is(err, io.ErrUnexpectedEOF) || n != keyBytes {
		return nil, fmt.Errorf("key of tokens: %s does not have %d bytes; restore it from a backup, or revoke all tokens and remove it", path, keyBytes)
	}
	return key[:keyBytes], nil
}

// makeKey returns the key of a state directory, and makes it where there is none. It is
// linked to its name when it is whole, so of two processes both get the same.
func makeKey(state string) ([]byte, error) {
	key, err := readKey(state)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	f, err := os.CreateTemp(state, keyFile+".*") // with the mode 0600
	if err != nil {
		return nil, fmt.Errorf("make key of tokens: %w", err)
	}
	defer os.Remove(f.Name())
	key = make([]byte, keyBytes)
	rand.Read(key)
	_, err = f.Write(key)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("make key of tokens: %w", err)
	}
	if err := os.Link(f.Name(), filepath.Join(state, keyFile)); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make key of tokens: %w", err)
	}
	dir, err := os.Open(state)
	if err != nil {
		return nil, fmt.Errorf("make key of tokens: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return nil, fmt.Errorf("make key of tokens: %w", err)
	}
	return readKey(state)
}
