package sandbox

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A name with ".." is found even if other processes rename files on the same host, which
// makes the kernel fail now and then.
func TestLookupsAreRepeated(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	var wg sync.WaitGroup
	over := make(chan struct{})
	other := t.TempDir()
	wg.Go(func() {
		for from, to := filepath.Join(other, "x"), filepath.Join(other, "y"); ; from, to = to, from {
			select {
			case <-over:
				return
			default:
				_ = os.Mkdir(from, 0o700)
				_ = os.Rename(from, to)
			}
		}
	})
	defer wg.Wait()
	defer close(over)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH}
	given := 0
	for range 20_000 {
		fd, err := unix.Openat2(root, "a/../b", &how)
		if err != nil {
			given++
			if fd, err = openat2(root, "a/../b", &how); err != nil {
				t.Fatal(err)
			}
		}
		unix.Close(fd)
	}
	t.Logf("the kernel gave up %d times", given)
}
