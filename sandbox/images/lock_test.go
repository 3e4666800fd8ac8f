package images

import (
	"os"
	"os/exec"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A lock that was released is free immediately, even while programs start: each has a copy
// of all descriptors from its fork to its execve.
func TestLockIsFreeWhileProgramsStart(t *testing.T) {
	dir := t.TempDir()
	ended := make(chan struct{})
	var starting sync.WaitGroup
	defer starting.Wait()
	for range 2 {
		starting.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					_ = exec.Command("true").Run()
				}
			}
		})
	}
	defer close(ended)
	for i := range 20_000 {
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := flock(f, unix.LOCK_EX); err != nil {
			t.Fatalf("the lock that was given back %d times: %v", i, err)
		}
		if err := unlock(f); err != nil {
			t.Fatal(err)
		}
	}
}
