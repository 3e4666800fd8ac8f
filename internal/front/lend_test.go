package front

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A listener stays unchanged when a successor gets its descriptor: a blocking listener
// could not be closed while it waits for a client.
func TestLentListenerDoesNotBlock(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := &Handover{}
	if err := h.lend(l); err != nil {
		t.Fatal(err)
	}
	defer h.Sent()
	flags, err := unix.FcntlInt(h.Files[0].Fd(), unix.F_GETFL, 0) // os.StartProcess calls Fd too
	if err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("the listener blocks: flags %x, %v", flags, err)
	}
}
