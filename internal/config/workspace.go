package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FindWorkspace is the directory that a name means, or says why it cannot be
// a workspace.
func FindWorkspace(name string) (string, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", fmt.Errorf("workspace %s: %w", name, err)
	}
	real, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("workspace %s: no such directory; make it, or name another one with --workspace", name)
	case err != nil:
		return "", fmt.Errorf("workspace %s: %w", name, err)
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return "", fmt.Errorf("workspace %s: %w", name, err)
	case !info.IsDir():
		return "", fmt.Errorf("workspace %s: not a directory; name one with --workspace", name)
	case real == "/":
		return "", errors.New("workspace /: the whole machine would be in the box; name a directory with --workspace")
	}
	// Every box would fail on it later, and this host would look like the cause.
	if err := unix.Faccessat(unix.AT_FDCWD, real, unix.R_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return "", fmt.Errorf("workspace %s: this user cannot read it: %w; run chmod u+rx on it as its owner, or name another one with --workspace", name, err)
	}
	return real, nil
}
