package sandbox

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A glance ends by itself, by what is written to stderr or by its time, and
// not by the end of the pipe while somebody holds it.
func TestGlance(t *testing.T) {
	g, err := newGlance()
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])

	for range 3 { // the timer is set again
		l := g.begin(p[0])
		<-l.over
		g.end(l)
	}
	short := g.begin(p[0])
	g.end(short)
	g.end(short)
	g.mu.Lock()
	if n := len(g.looks); n != 0 {
		t.Errorf("%d glances are left", n)
	}
	g.mu.Unlock()

	if _, err := unix.Write(p[1], []byte("x")); err != nil {
		t.Fatal(err)
	}
	for armed := true; armed; { // the timer comes once more
		g.mu.Lock()
		armed = g.armed
		g.armed = true // so that it is not set: what was written ends the glance
		g.mu.Unlock()
		runtime.Gosched()
	}
	l := g.begin(p[0])
	<-l.over
	g.end(l)

	l = g.begin(-1) // cannot be looked at
	<-l.over
	g.end(l)
}
