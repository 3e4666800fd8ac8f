package fleet

import (
	"crypto/tls"
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
		time.Sleep(2 * time.Hour) // fake time
	}
	if before != "" {
		write(before)
	}
	c.tail.begin(prefaceSize, c.probe)
	for _, text := range writes {
		write(text)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	<-ended
	return read.String()
}

// midway is a connection that calls during in the middle of a write.
type midway struct {
	net.Conn
	during func()
	got    string
}

func (m *midway) Write(p []byte) (int, error) {
	m.got += string(p[:1])
	if m.during != nil {
		m.during()
	}
	m.got += string(p[1:])
	return len(p), nil
}

func (*midway) Close() error { return nil }

// TestTailProbeKeepsOut checks that a probe splits no write, and that none is sent after Close.
func TestTailProbeKeepsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in fake time, the timer sends nothing meanwhile
		m := new(midway)
		c := newConn(m)
		m.during = c.probe
		c.tail.late = func() bool { return true }
		c.tail.begin(0, c.probe)
		headers := frame(frameHeaders, endHeaders, 1, blockOK)
		if _, err := io.WriteString(c, headers); err != nil || m.got != headers {
			t.Errorf("a probe in the middle of a write: the other end reads %q, %v; want %q", m.got, err, headers)
		}
		m.during = nil
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		c.probe()
		if m.got != headers {
			t.Errorf("after Close, the other end reads %q, want %q", m.got, headers)
		}
	})
}

// TestTailProbesOfLinks checks that both ends of a link send probes, and that the link serves
// requests among them.
func TestTailProbesOfLinks(t *testing.T) {
	r := newRig(t, nil)
	m := r.worker("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"), "p")
	r.says("p", 200, "w1")
	front, worker := r.front.roster.named("w1").conn, onlyLink(t, m.Worker)
	var due [2]atomic.Int32
	for i, c := range []*conn{front, worker} {
		c.tail.mu.Lock()
		c.tail.late = func() bool {
			due[i].Add(1)
			return true
		}
		c.tail.mu.Unlock()
	}
	const probes = 10
	if !testenv.Until(20*time.Second*testenv.Patience(t), func() bool {
		r.says("p", 200, "w1")
		return due[0].Load() > probes && due[1].Load() > probes
	}) {
		t.Errorf("%d probes of the front were due, %d of the worker, want more than %d of each", due[0].Load(), due[1].Load(), probes)
	}
	if now := onlyLink(t, m.Worker); now != worker || closed(worker.lost) || closed(front.lost) {
		t.Error("the link has ended")
	}
}

// TestLate checks that a probe is useful only while a long link owes acknowledgements.
func TestLate(t *testing.T) {
	n := nettest.New(t, 1)
	far := newConn(tls.Client(pairOf(t, n, 50*time.Millisecond), nil))
	if !far.long() || far.tail.late() {
		t.Errorf("a link of 100 ms is long: %v; before the first write, its acknowledgements are late: %v", far.long(), far.tail.late())
	}
	if _, err := far.socket().Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if !far.tail.late() {
		t.Error("after a write, acknowledgements of a link of 100 ms are not late")
	}
	if !testenv.Until(20*time.Second*testenv.Patience(t), func() bool { return !far.tail.late() }) {
		t.Error("acknowledgements are late for ever")
	}
	near := newConn(tls.Client(pairOf(t, n, 0), nil))
	if !testenv.Until(20*time.Second*testenv.Patience(t), func() bool {
		if _, err := near.socket().Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		before, late, after := near.socket().owes(), near.tail.late(), near.socket().owes()
		if late {
			t.Error("acknowledgements of a short link are late")
		}
		return before && after
	}) {
		t.Error("each write is acknowledged before the test looks")
	}
}

// TestUploadsHaveSmallParts checks the sizes of the parts in which a front reads a request.
func TestUploadsHaveSmallParts(t *testing.T) {
	const all = 20_000
	check := func(t *testing.T, link *conn, want int) {
		t.Helper()
		from := &source{Reader: strings.NewReader(strings.Repeat("x", all)), link: link}
		if n, err := from.Read(make([]byte, all)); n != want || err != nil {
			t.Errorf("the first part has %d bytes, %v; want %d", n, err, want)
		}
		if rest, err := io.ReadAll(from); len(rest) != all-want || err != nil {
			t.Errorf("the rest has %d bytes, %v; want %d", len(rest), err, all-want)
		}
	}
	t.Run("fast", func(t *testing.T) {
		s, _ := socketPair(t)
		check(t, newConn(tls.Client(s, nil)), all)
	})
	t.Run("slow", func(t *testing.T) {
		c := newConn(nil)
		c.turns.wrote(slowWrite)
		check(t, c, slowFrame)
	})
	t.Run("long", func(t *testing.T) {
		check(t, newConn(tls.Client(pairOf(t, nettest.New(t, 1), 50*time.Millisecond), nil)), slowFrame)
	})
}

// pairOf returns the socket of a connection to another host, which is delay away.
func pairOf(t *testing.T, n *nettest.Net, delay time.Duration) net.Conn {
	t.Helper()
	a, b := n.Host(), n.Host()
	n.Between(a, b, nettest.Wire{Delay: delay})
	var l net.Listener
	var c net.Conn
	if err := b.Do(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(b.Addr, 0).String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := a.Do(func() (err error) {
		c, err = net.Dial("tcp", l.Addr().String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return newSocket(c)
}
