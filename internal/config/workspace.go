package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FindWorkspace returns the directory that --workspace names, or an error that says why the
// directory cannot be a workspace.
func FindWorkspace(name string) (string, error) { return FindPlace(name, "with --workspace") }

// FindPlace is FindWorkspace for a directory that was named in another way. how is the part
// of its errors that says how to name another directory.
func FindPlace(name, how string) (string, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", fmt.Errorf("workspace %s: %w", name, err)
	}
	real, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("workspace %s: no such directory; make it, or name another one %s", name, how)
	case err != nil:
		return "", fmt.Errorf("workspace %s: %w", name, err)
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return "", fmt.Errorf("workspace %s: %w", name, err)
	case !info.IsDir():
		return "", fmt.Errorf("workspace %s: not a directory; name one %s", name, how)
	case real == "/":
		return "", fmt.Errorf("workspace /: the whole machine would be in the box; name a directory %s", how)
	}
	// Otherwise every box would fail later, and this host would look like the cause.
	if err := unix.Faccessat(unix.AT_FDCWD, real, unix.R_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return "", fmt.Errorf("workspace %s: this user cannot read it: %w; run chmod u+rx on it as its owner, or name another one %s", name, err, how)
	}
	return real, nil
}
