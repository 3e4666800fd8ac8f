package initconn

import (
	"io"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A glance ends with the answer, with a write to stderr, or after its time. Here the pipe
// stays open.
func TestGlance(t *testing.T) {
	c, say := testConn(t)
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	got := -1
	glance := func(stderr int) int {
		got = -1
		c.Hear(Glance(stderr), func(text []byte, _ []int) error { got = numbered(text); return nil }, func() bool { return got >= 0 })
		return got
	}

	armed := func() bool {
		var at unix.ItimerSpec
		if err := unix.TimerfdGettime(c.timer, &at); err != nil {
			t.Fatal(err)
		}
		return at.Value != unix.Timespec{}
	}

	for n := range 3 {
		if glance(p[0]) >= 0 { // ends after its time
			t.Errorf("heard message %d, want none", got)
		}
		say(n)
		if glance(p[0]); got != n || armed() {
			t.Errorf("heard message %d, want %d; the timer runs: %v", got, n, armed())
		}
	}

	if _, err := unix.Write(p[1], []byte("x")); err != nil {
		t.Fatal(err)
	}
	// With a timer that never fires, only stderr can end it.
	timer := c.timer
	if err := c.direct.Remove(timer); err != nil {
		t.Fatal(err)
	}
	for range 3 { // each glance notices the byte that is already in the pipe
		glance(p[0])
	}
	glance(-1) // a descriptor that cannot be watched
	if !c.takeTurn() {
		t.Fatal("the turn is not given back")
	}
	glance(p[0]) // another goroutine has the turn
	c.endTurn()
}

// If an init ends during a glance, Listen returns an error.
func TestHangUpInAGlance(t *testing.T) {
	c, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	theirs.Close()
	c.Hear(Glance(p[0]), func(text []byte, _ []int) error {
		if len(text) == 0 {
			return io.EOF
		}
		return nil
	}, func() bool { return false })
	if err := c.Listen(func([]byte, []int) error { return nil }); err == nil {
		t.Error("the listener ends without an error")
	}
}

// TestGlancesEnd checks that a glance ends after GlanceTime even if no message arrives,
// whatever other goroutines do when their glances end.
func TestGlancesEnd(t *testing.T) {
	c, _ := testConn(t)
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
