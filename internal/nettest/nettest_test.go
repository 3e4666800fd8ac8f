package nettest

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// listen returns a UDP socket of a host.
func listen(t *testing.T, h *Host) net.PacketConn {
	t.Helper()
	var c net.PacketConn
	if err := h.Do(func() (err error) {
		c, err = net.ListenPacket("udp4", h.Addr.String()+":0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// send sends count packets, and returns how many of them were lost on the way.
func (n *Net) send(t *testing.T, a, b *Host, count int) (lost int) {
	t.Helper()
	from, to := listen(t, a), listen(t, b)
	before := n.Count(a, b)
	for i := range count {
		if _, err := from.WriteTo(fmt.Append(nil, i), to.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		// waits for each packet, so that the queue of the device does not overflow
		if !testenv.Until(20*time.Second, func() bool {
			now := n.Count(a, b)
			return now.Passed+now.Lost-before.Passed-before.Lost == i+1
		}) {
			t.Fatalf("packet %d did not come to the switch", i)
		}
	}
	return n.Count(a, b).Lost - before.Lost
}

// A good cable loses nothing. A bad cable loses a part that its seed decides. A cable that
// is cut in one direction works in the other.
func TestWires(t *testing.T) {
	n := New(t, 1)
	a, b := n.Host(), n.Host()
	if lost := n.send(t, a, b, 100); lost != 0 {
		t.Errorf("a good cable loses %d of 100", lost)
	}
	n.Set(a, b, Wire{Loss: 0.3})
	if lost := n.send(t, a, b, 300); lost < 60 || lost > 120 {
		t.Errorf("a cable that loses three of ten loses %d of 300", lost)
	}
	n.Set(a, b, Wire{Cut: true})
	if lost := n.send(t, a, b, 20); lost != 20 {
		t.Errorf("a cable that is cut loses %d of 20", lost)
	}
	if lost := n.send(t, b, a, 20); lost != 0 {
		t.Errorf("the other direction loses %d of 20", lost)
	}
}

// A connection works over a long cable that loses packets and lets packets overtake each
// other, and the connection takes its time. The machine cannot reach the listener of the
// host directly.
func TestLongCable(t *testing.T) {
	n := New(t, 2)
	a, b := n.Host(), n.Host()
	n.Between(a, b, Wire{Delay: 20 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: 0.05})
	var l net.Listener
	if err := b.Do(func() (err error) {
		l, err = net.Listen("tcp", b.Addr.String()+":0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if c, err := net.DialTimeout("tcp", l.Addr().String(), 50*time.Millisecond); err == nil {
		c.Close()
		t.Error("the machine reaches a host without the switch")
	}
	over := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = io.Copy(c, c)
			c.Close()
		}
		over <- err
	}()
	began := time.Now()
	c, err := a.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("the way there and back takes %v", took)
	}
	text := strings.Repeat("there and back, ", 1<<14)
	go func() {
		_, _ = io.WriteString(c, text)
		if half, ok := c.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}()
	got, err := io.ReadAll(c)
	if err != nil || string(got) != text {
		t.Errorf("%d of %d bytes come back, %v", len(got), len(text), err)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
	if now := n.Count(a, b); now.Lost == 0 || now.Passed < 100 {
		t.Errorf("on the way: %+v", now)
	}
}

// A process that is started in a host belongs to this host.
func TestProcessOfHost(t *testing.T) {
	testenv.Need(t, testenv.Bash)
	n := New(t, 3)
	h := n.Host()
	cmd := exec.CommandContext(t.Context(), "cat", "/proc/self/net/dev")
	var out strings.Builder
	cmd.Stdout = &out
	if err := h.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), device) {
		t.Errorf("%v\n%s", err, out.String())
	}
}
