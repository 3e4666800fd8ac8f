package audit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Hold runs f while no process writes to the log in dir, and returns its error. f must not
// take long: calls that need their record wait for it. If dir contains no log, Hold only
// runs f.
func Hold(dir string, f func() error) error {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return f()
	}
	if err != nil {
		return err
	}
	defer lock.Close() // Close unlocks it
	if err := lockFile(lock, lockShared); err != nil {
		return err
	}
	return f()
}
