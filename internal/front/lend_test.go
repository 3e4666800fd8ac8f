package front

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A listener whose descriptor a successor gets is not changed by that: one that blocks
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
	flags, err := unix.FcntlInt(h.Files[0].Fd(), unix.F_GETFL, 0) // Fd is what os.StartProcess calls
	if err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("the listener blocks: flags %x, %v", flags, err)
	}
}
