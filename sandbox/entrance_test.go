package sandbox

import (
	"net"
	"testing"
)

// A connection is pending from the time when it is made until the server that accepted it
// calls Accept again.
func TestEntrance(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEntrance(l)
	if err != nil {
		t.Fatal(err)
	}
	accepted, next := make(chan net.Conn), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			<-next
			c, err := e.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	if !e.pending() {
		t.Error("nobody accepts yet, and nothing is pending")
	}
	next <- struct{}{}
	eventually(t, "one that waits for connections has none pending", func() bool { return !e.pending() })
	for range 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		taken := <-accepted
		if !e.pending() {
			t.Error("what was accepted is not pending before the next is accepted")
		}
		next <- struct{}{}
		eventually(t, "nothing is pending any more", func() bool { return !e.pending() })
		taken.Close()
		c.Close()
	}
	e.Close()
	<-done
	if e.pending() {
		t.Error("a closed one has something pending")
	}
}
