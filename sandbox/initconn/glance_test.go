package initconn

import (
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestGlancesEnd: a glance ends after GlanceTime also where no message comes, and whatever others do when
// theirs end.
func TestGlancesEnd(t *testing.T) {
	c, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	defer c.Close()
	never := func() bool { return false }
	var all sync.WaitGroup
	for range 8 {
		var stderr [2]int
		if err := unix.Pipe2(stderr[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer unix.Close(stderr[1])
			defer unix.Close(stderr[0])
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				c.Hear(Glance(stderr[0]), func([]byte, []int) error { return nil }, never)
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("a glance does not end")
	}
}
