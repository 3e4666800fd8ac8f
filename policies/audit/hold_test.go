package audit

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// While Hold runs, no process can get the lock for writing; afterwards a process can.
func TestHold(t *testing.T) {
	dir := t.TempDir()
	write := func() error {
		f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	fault := errors.New("fault")
	if err := Hold(dir, func() error { return fault }); !errors.Is(err, fault) {
		t.Errorf("without a log: got %v, want %v", err, fault)
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	err := Hold(dir, func() error {
		if err := write(); !errors.Is(err, syscall.EWOULDBLOCK) {
			t.Errorf("a writer gets %v, want that it has to wait", err)
		}
		return fault
	})
	if !errors.Is(err, fault) {
		t.Errorf("got %v, want %v", err, fault)
	}
	if err := write(); err != nil {
		t.Errorf("a writer gets %v afterwards", err)
	}
}
