package fleet

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A link sends a lost packet again sooner than other connections, and acknowledges what comes
// sooner than that.
func TestTimesOfTCP(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	times := func(control func(network, address string, c syscall.RawConn) error) (again, acknowledged int) {
		t.Helper()
		c, err := (&net.Dialer{Control: control}).DialContext(t.Context(), "tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var fault error
		err = raw.Control(func(fd uintptr) {
			again, fault = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MIN_US)
			if fault == nil {
				acknowledged, fault = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_DELACK_MAX_US)
			}
		})
		if errors.Is(fault, unix.ENOPROTOOPT) {
			t.Skip("this kernel does not know the times; Linux 6.15 does")
		}
		if err := errors.Join(err, fault); err != nil {
			t.Fatal(err)
		}
		return again, acknowledged
	}
	usual, _ := times(nil)
	again, acknowledged := times(func(_, _ string, c syscall.RawConn) error { return tune(c) })
	if again < leastRetransmit || again >= usual || acknowledged < mostDelayedAck || acknowledged >= again {
		t.Errorf("a link waits %d µs and acknowledges after %d; other connections wait %d", again, acknowledged, usual)
	}
}
