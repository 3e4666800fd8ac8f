package procfs

import (
	"os"
	"path/filepath"
	"testing"
)

// Write fails if the file does not exist, and does not create it.
func TestWriteMakesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent")
	if err := Write(path, "x"); err == nil {
		t.Error("a file that does not exist was written")
	}
	if _, err := Open(path); err == nil {
		t.Error("a file that does not exist was opened")
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("a file was made")
	}
}
