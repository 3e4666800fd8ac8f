package audit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"belljar.dev/internal/testenv"
)

// smallDisk returns a directory on a file system of kib KiB.
func smallDisk(t *testing.T, kib string) string {
	t.Helper()
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	if err := syscall.Mount("small", dir, "tmpfs", 0, "mode=700,size="+kib+"k"); err != nil {
		t.Skipf("mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestFullDisk fills a real disk: a call that waits for its record gets an error, and lost
// records are counted. When there is room again, the log states how many records were lost
// and continues in the same chain.
func TestFullDisk(t *testing.T) {
	disk := smallDisk(t, "256")
	cfg := config(filepath.Join(disk, "audit"))
	l := begin(t, cfg)
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 128<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	const all = 400
	var lost int
	for i := range all {
		switch err := l.Write(t.Context(), decision(i)); {
		case errors.Is(err, syscall.ENOSPC):
			lost++
		case err != nil:
			t.Fatal(err)
		}
	}
	h := l.Health()
	if lost == 0 || lost == all || h.Lost != uint64(lost) || h.Written != uint64(all-lost) || h.Stated || !strings.Contains(h.Why, "no space left") {
		t.Fatalf("%d of %d lost, and the log says %+v", lost, all, h)
	}
	verify(t, cfg.Dir) // also while the disk is full
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(t.Context(), decision(all)); err != nil {
		t.Fatal(err)
	}
	if h := l.Health(); !h.Stated || h.Lost != uint64(lost) {
		t.Errorf("with room again the log says %+v", h)
	}
	finish(t, l)
	// A short record may find room after a longer one did not: then the log states two
	// losses.
	r := verify(t, cfg.Dir)
	if len(r.Notes) == 0 {
		t.Error("no note says what was lost")
	}
	for _, note := range r.Notes {
		if !strings.Contains(note, "could not be written") {
			t.Errorf("note: %q", note)
		}
	}
	said, err := ReadLosses(t.Context(), cfg.Dir)
	if err != nil || said.Count != uint64(lost) || said.Since.IsZero() || !strings.Contains(said.Last, "no space left") {
		t.Errorf("got %+v %v, want %d", said, err, lost)
	}
}

// On a full disk a process cannot open a log, and the attempt leaves nothing that prevents
// the next process from opening it.
func TestOpenOnFullDisk(t *testing.T) {
	disk := smallDisk(t, "16")
	ballast := filepath.Join(disk, "ballast")
	for size := 16 << 10; os.WriteFile(ballast, make([]byte, size), 0o600) != nil; size -= 4 << 10 {
		if size <= 0 {
			t.Fatal("nothing fits the disk")
		}
	}
	cfg := config(filepath.Join(disk, "audit"))
	if l, err := Open(cfg); err == nil {
		l.Close()
		t.Fatal("a log was opened on a full disk")
	} else if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	if err := os.Truncate(ballast, 0); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("small", disk, "tmpfs", syscall.MS_REMOUNT, "size=1m"); err != nil {
		t.Fatal(err)
	}
	fill(t, cfg, 3)
	verify(t, cfg.Dir)
}
