package procfs

import (
	"os"
	"path/filepath"
	"testing"
)

// Write fails where there is no such file, and makes none.
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
