package workspace

import (
	"os"
	"os/exec"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLockIsFreeWhileProgramsStart checks that a released lock is free immediately, also
// while programs start: each of them has a copy of all descriptors from its fork to its
// execve.
func TestLockIsFreeWhileProgramsStart(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	must(t, err)
	defer dir.Close()

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
		l, err := tryLock(dir, liveName, unix.LOCK_EX)
		must(t, err)
		if l == nil {
			t.Fatalf("the lock that was given back %d times is held", i)
		}
		l.free()
	}
}
