package fleet

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/nettest"
	"belljar.dev/internal/testenv"
)

// TestTailProbe checks after which writes a probe follows. Each row ends with a long silence.
func TestTailProbe(t *testing.T) {
	headers := frame(frameHeaders, endHeaders, 1, blockOK)
	long := frame(frameData, 0, 1, strings.Repeat("x", 10_000))
	rows := []struct {
		name   string
		writes []string // with a long silence between two writes
		want   string   // what the other end reads
	}{
		{"headers", []string{headers}, headers + probeFrame},
		{"data", []string{long}, long + probeFrame},
		{"reset", []string{frame(frameReset, 0, 1, "\x00\x00\x00\x08")}, frame(frameReset, 0, 1, "\x00\x00\x00\x08") + probeFrame},
		{"empty data", []string{frame(frameData, endStream, 1, "")}, frame(frameData, endStream, 1, "") + probeFrame},
		{"two messages", []string{headers, long}, headers + probeFrame + long + probeFrame},
		{"several frames in one write", []string{headers + long + headers}, headers + long + headers + probeFrame},
		{"a message with a ping", []string{headers + probeFrame}, headers + probeFrame + probeFrame},
		{"a message, then a ping", []string{headers, probeFrame}, headers + probeFrame + probeFrame},
		{"a message with part of a head", []string{headers + long[:4]}, headers + long[:4]},
		{"part of a head", []string{headers[:4]}, headers[:4]},
		{"part of a frame", []string{long[:5000]}, long[:5000]},
		{"a frame in parts", []string{long[:5], long[5:9], long[9:5000], long[5000:]}, long + probeFrame},
		{"headers without an end", []string{frame(frameHeaders, 0, 1, blockOK)}, frame(frameHeaders, 0, 1, blockOK)},
		{
			"headers in two frames",
			[]string{frame(frameHeaders, 0, 1, blockOK), frame(frameContinuation, endHeaders, 1, blockOK)},
			frame(frameHeaders, 0, 1, blockOK) + frame(frameContinuation, endHeaders, 1, blockOK) + probeFrame,
		},
		{"settings", []string{noSettings}, noSettings},
		{"a ping", []string{probeFrame}, probeFrame},
		{"a window update", []string{frame(frameWindow, 0, 1, "\x00\x00\x00\x08")}, frame(frameWindow, 0, 1, "\x00\x00\x00\x08")},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := probed(t, 0, "", true, row.writes...); got != row.want {
					t.Errorf("the other end reads %.80q, want %.80q", got, row.want)
				}
				without := strings.Join(row.writes, "")
				if got := probed(t, 0, "", false, row.writes...); got != without {
					t.Errorf("if everything is acknowledged, the other end reads %.80q, want %.80q", got, without)
				}
				if got := probed(t, len(preface), "hello\n", true, append([]string{preface}, row.writes...)...); got != "hello\n"+preface+row.want {
					t.Errorf("after a preface, the other end reads %.80q, want %.80q", got, "hello\n"+preface+row.want)
				}
			})
		})
	}
}

// probed returns what the other end of a link reads. before is written before the link uses
// HTTP/2.
func probed(t *testing.T, prefaceSize int, before string, late bool, writes ...string) string {
	t.Helper()
	here, there := net.Pipe()
	var read strings.Builder
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(&read, there)
	}()
	c := newConn(here)
	c.tail.late = func() bool { return late }
	write := func(text string) {
		if _, err := io.WriteString(c, text); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // fake time
	}
	if before != "" {
		write(before)
	}
	c.tail.begin(prefaceSize)
	for _, text := range writes {
		write(text)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	<-ended
	return read.String()
}

// TestTailProbesOfLinks checks that both ends of a link send probes, and that the link serves
// requests among them.
func TestTailProbesOfLinks(t *testing.T) {
	r := newRig(t, nil)
	m := r.worker("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"), "p")
	r.says("p", 200, "w1")
	front, worker := r.front.roster.named("w1").conn, onlyLink(t, m.Worker)
	var sent [2]atomic.Int32
	for i, c := range []*conn{front, worker} {
		c.tail.mu.Lock()
		c.tail.late = func() bool {
			sent[i].Add(1)
			return true
		}
		c.tail.mu.Unlock()
	}
	const probes = 10
	if !testenv.Until(20*time.Second*testenv.Patience(t), func() bool {
		r.says("p", 200, "w1")
		return sent[0].Load() > probes && sent[1].Load() > probes
	}) {
		t.Errorf("the front has sent %d probes, the worker %d, want more than %d", sent[0].Load(), sent[1].Load(), probes)
	}
	if now := onlyLink(t, m.Worker); now != worker || closed(worker.lost) || closed(front.lost) {
		t.Error("the link has ended")
	}
}

// TestSocketLate checks that a probe is useful only while a long link owes acknowledgements.
func TestSocketLate(t *testing.T) {
	n := nettest.New(t, 1)
	a, b := n.Host(), n.Host()
	n.Between(a, b, nettest.Wire{Delay: 50 * time.Millisecond})
	var l net.Listener
	if err := b.Do(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(b.Addr, 0).String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var far net.Conn
	if err := a.Do(func() (err error) {
		far, err = net.Dial("tcp", l.Addr().String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	s, ok := newSocket(far).(*socket)
	if !ok {
		t.Fatal("a connection of TCP is not a socket")
	}
	if s.late(probeAfter) {
		t.Error("before the first write, acknowledgements are late")
	}
	if _, err := s.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if !s.late(probeAfter) || s.late(time.Hour) {
		t.Errorf("after a write, acknowledgements of a link of 100 ms are late: %v, of one of an hour: %v; want true and false", s.late(probeAfter), s.late(time.Hour))
	}
	if !testenv.Until(20*time.Second*testenv.Patience(t), func() bool { return !s.late(probeAfter) }) {
		t.Error("acknowledgements are late for ever")
	}
}
