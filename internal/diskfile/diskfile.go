// Package diskfile writes small files so that a power failure leaves the old text or the
// new one, and never a part.
package diskfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace puts a text in place of a file, or makes the file. It returns once the text and
// the name are on the disk. A process that is killed meanwhile can leave a file named .belljar-*
// in the same directory.
func Replace(path string, text []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	next, err := os.CreateTemp(dir, ".belljar-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = next.Write(text)
	err = errors.Join(err, next.Chmod(mode), next.Sync(), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(next.Name())))
	}
	return SyncDir(dir)
}

// SyncDir returns once the names in a directory are on the disk.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
