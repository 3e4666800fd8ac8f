package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"belljar.dev/internal/diskfile"
)

// prepare makes the directory and the file of the database, readable only by this user. It
// returns an error for a file or directory that another user could have put there. The
// files that sqlite adds get the mode of the database.
//
// It must not open a database that exists: a process loses its locks on a file when it
// closes any descriptor of it (fcntl(2)).
func prepare(state string) error {
	dir, file := filepath.Join(state, dirName), Path(state)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make state: %w (%w); name another directory with --state", ErrReadOnly, err)
	}
	// A user who can write the parent directory could replace our directory by another one.
	if err := owned(state, fs.ModeDir, 0o022); err != nil {
		return err
	}
	if err := owned(dir, fs.ModeDir, 0o077); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	switch {
	case err == nil:
		// Without these syncs, a crash could remove the name of the database, and with it
		// all that was written.
		if err := errors.Join(f.Close(), diskfile.SyncDir(dir), diskfile.SyncDir(state), diskfile.SyncDir(filepath.Dir(state))); err != nil {
			return fmt.Errorf("make state: %w", err)
		}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("make state: %w (%w); make room on its disk", ErrFull, err)
	case !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("make state: %w (%w); name another directory with --state", ErrReadOnly, err)
	}
	return owned(file, 0, 0o077)
}

// owned checks that a file belongs to this user and has the given kind, and that its mode
// has none of the bits in never. Only the state directory itself may be a symbolic link,
// which its user made.
func owned(path string, kind fs.FileMode, never fs.FileMode) error {
	stat := os.Lstat
	if never == 0o022 {
		stat = os.Stat
	}
	info, err := stat(path)
	if err != nil {
		return fmt.Errorf("open state: %w", err)
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode().Type() != kind:
		return fmt.Errorf("open state: %s is a %v; move it away", path, info.Mode())
	case !ok || int(sys.Uid) != os.Geteuid():
		return fmt.Errorf("open state: %s belongs to another user; name another directory with --state", path)
	case info.Mode()&never != 0:
		return fmt.Errorf("open state: %s has the mode %#o, so other users could change what belljar believes; chmod go-rwx it", path, info.Mode().Perm())
	}
	return nil
}
