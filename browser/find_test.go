package browser_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/browser"
	"belljar.dev/internal/testenv"
)

// TestFindReliesOnNoWorkspace checks that a Chrome that a box can write is not used if the
// workspace's programs are on the PATH.
func TestFindReliesOnNoWorkspace(t *testing.T) {
	testenv.Need(t, testenv.Chromium)
	proper, err := browser.Find()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	link := filepath.Join(bin, "chromium-headless-shell")
	if err := os.Symlink(proper, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	got, err := browser.FindChecked(func(path string) error {
		if filepath.Dir(path) == bin {
			return errors.New("a box can write it")
		}
		return nil
	})
	if err != nil || got != proper {
		t.Errorf("got %q, %v, want %q", got, err, proper)
	}
	got, err = browser.FindChecked(func(string) error { return errors.New("a box can write it") })
	if err == nil || !strings.Contains(err.Error(), " is not used: a box can write it") || !strings.Contains(err.Error(), "install it with") {
		t.Errorf("got %q, which cannot be relied on, and %v", got, err)
	}
}
