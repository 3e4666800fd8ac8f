package main

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// full is a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, unix.ENOSPC }

// TestLostOutput checks that a command does not end with status 0 if a part of its output
// was lost.
func TestLostOutput(t *testing.T) {
	for _, line := range []string{"policy check default", "policy explain default ls", "policy list", "version", "--help", "help"} {
		var errs strings.Builder
		if code := run(strings.Fields(line), strings.NewReader(""), full{}, &errs); code != exitFailed || !strings.Contains(errs.String(), "no space left on device") {
			t.Errorf("%s: status %d, %q", line, code, errs.String())
		}
	}
}
