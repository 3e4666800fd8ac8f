package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOnlyFilesAreReplaced checks that a command that writes a file puts none into the place
// of a device: root could lose /dev/null.
func TestOnlyFilesAreReplaced(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replace(name, []byte("text")); err == nil {
		t.Error("a pipe was replaced")
	}
	if info, err := os.Lstat(name); err != nil || info.Mode().IsRegular() {
		t.Errorf("the pipe is %v, %v", info, err)
	}
	code, _, errs := ran("browser", "watch", "seat-1", "--to", name, "--state", t.TempDir())
	if code != exitFailed || !strings.Contains(errs, "it is not a regular file") {
		t.Errorf("browser watch: status %d, %q", code, errs)
	}
}
