package protect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that cannot be written whole keeps its old text behind what was written.
func TestARewriteThatFailsLosesNothing(t *testing.T) {
	p, dir := guarded(t, nil)
	old := strings.Repeat("# a line of a person\n", 100)
	name := filepath.Join(dir, ".gitmodules")
	put(t, name, old)
	st, err := statAt(p.root, ".gitmodules")
	must(t, err)
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 100, Max: limit.Max}))
	err = rewriteAt(p.root, ".gitmodules", st, []byte(old[:len(old)/2]))
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
	if err == nil {
		t.Error("a write beyond the limit did not fail")
	}
	if now, err := os.ReadFile(name); err != nil || string(now) != old {
		t.Errorf("%d bytes of %d are left, %v", len(now), len(old), err)
	}
	must(t, rewriteAt(p.root, ".gitmodules", st, []byte(old[:len(old)/2])))
	if now, err := os.ReadFile(name); err != nil || string(now) != old[:len(old)/2] {
		t.Errorf("got %d bytes, %v; want the first half", len(now), err)
	}
}
