// Package diskfile writes small files so that after a power failure a file has either the
// old text or the new text, and never a part of it.
package diskfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace replaces a file by a text, or creates the file. It returns when the text and the
// name are on the disk. If the process is killed meanwhile, a file named .belljar-* may be
// left in the same directory.
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

// SyncDir returns when the names in a directory are on the disk.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
