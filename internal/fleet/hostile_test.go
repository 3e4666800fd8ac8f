package fleet

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// Further frames of HTTP/2 (RFC 9113, 6), the protocol of a link after its hello.
const (
	frameSettings = 0x4
	framePush     = 0x5
	framePing     = 0x6
	frameWindow   = 0x8

	endStream = 0x1
	ack       = 0x1
	maxFrame  = 16 << 10 // bytes of the payload of a frame
	// blockOK is the header block of an answer, from the static table of HPACK.
	blockOK = "\x88"
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

var noSettings = frame(frameSettings, 0, 0, "")

func frame(kind, flags byte, stream uint32, payload string) string {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return string(binary.BigEndian.AppendUint32(append(head, flags), stream)) + payload
}

// field returns a header field in the encoding of HPACK, without an index of a table.
func field(name, value string) string {
	text := func(s string) string { // RFC 7541, 5.1 and 5.2, without Huffman coding
		if len(s) < 127 {
			return string([]byte{byte(len(s))}) + s
		}
		length := []byte{127}
		n := len(s) - 127
		for ; n >= 128; n >>= 7 {
			length = append(length, byte(n)|128)
		}
		return string(append(length, byte(n))) + s
	}
	return "\x00" + text(name) + text(value)
}

// write writes a text n times, or until a write fails.
func write(w io.Writer, text string, n int) {
	piece := []byte(text) // converted only once, because some rows count allocations
	for range n {
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
}

// raw connects as a hostile worker with a valid certificate, and makes the hello.
func (r *rig) raw(files Credentials, says hello) (net.Conn, welcome) {
	r.t.Helper()
	certs, err := files.open()
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := tls.Dial("tcp", r.link.Addr().String(), certs.client("127.0.0.1"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute * testenv.Patience(r.t)))
	if err := send(c, says); err != nil {
		r.t.Fatal(err)
	}
	var said welcome
	if err := receive(c, &said); err != nil {
		r.t.Fatal(err)
	}
	return c, said
}

// await returns the next value from a channel, and fails the test if there is none in time.
func await[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(20 * time.Second * testenv.Patience(t)):
		t.Fatalf("no %s", what)
		panic("not reached")
	}
}

// frames reads frames until found returns true; size is the number of bytes of the payload.
func frames(c net.Conn, found func(kind, flags byte, size int) bool) error {
	for {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return err
		}
		size := binary.BigEndian.Uint32(head[:]) >> 8
		if _, err := io.CopyN(io.Discard, c, int64(size)); err != nil {
			return err
		}
		if found(head[3], head[4], int(size)) {
			return nil
		}
	}
}

// asked reads frames from a front until it requests the state of the worker, on its first
// stream.
func asked(c net.Conn) error {
	if _, err := io.CopyN(io.Discard, c, int64(len(preface))); err != nil {
		return err
	}
	return frames(c, func(kind, _ byte, _ int) bool { return kind == frameHeaders })
}

// countingListener counts the bytes that are read from its connections.
type countingListener struct {
	net.Listener
	read atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{c, &l.read}, nil
}

type countingConn struct {
	net.Conn
	read *atomic.Int64
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// counted makes the front of a rig also accept links at another port, where the bytes that
// it reads are counted. It returns a rig that uses that port.
func (r *rig) counted() (*rig, *atomic.Int64) {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	c := &countingListener{Listener: l}
	over := make(chan error, 1)
	go func() { over <- r.front.Serve(context.Background(), c) }()
	r.t.Cleanup(func() {
		l.Close()
		if err := <-over; err != nil {
			r.t.Error(err)
		}
	})
	own := *r
	own.link = l
	return &own, &c.read
}

// A hostile worker does not harm its front: the front reads no more bytes from it than the
// bounds of a link allow, ends the link, and serves the other workers.
func TestHostileWorker(t *testing.T) {
	r := newRig(t, nil)
	r.worker("good", r.cert("good", WorkerDNS("good")), echo("good"), "p")
	own, read := r.counted()
	files := r.cert("bad", WorkerDNS("bad"))
	const shake = 16 << 10 // upper limit for the bytes of a handshake and of one TLS record
	for name, tt := range map[string]struct {
		attack func(io.Writer)
		most   int64 // maximum number of bytes that the front reads
		why    string
	}{
		"garbage":           {func(w io.Writer) { write(w, "\xff\x00garbage", 100_000) }, shake, ""},
		"an unknown stream": {func(w io.Writer) { write(w, frame(frameHeaders, endHeaders, 9, blockOK), 1) }, shake, ""},
		"a header without end": {func(w io.Writer) {
			write(w, frame(frameHeaders, 0, 1, blockOK), 1)
			write(w, frame(frameContinuation, 0, 1, strings.Repeat(field("x", "y"), 1000)), 10_000)
		}, shake + maxHeader, ""},
		"answers before the answer without end": {func(w io.Writer) {
			write(w, frame(frameHeaders, endHeaders, 1, "\x08\x03103"+field("x", strings.Repeat("y", 1000))), 20_000)
		}, 6 << 20, ""}, // bytes that arrive until the link is closed; without a bound they are 10 MiB
		"a state with too long a name": {func(w io.Writer) {
			write(w, frame(frameHeaders, endHeaders, 1, blockOK)+frame(frameData, 0, 1, `{"places":["`+strings.Repeat("x", maxPlace+1)+`"]}`+"\n"), 1)
		}, shake, "its report about itself cannot be read"},
		"pushed streams": {func(w io.Writer) {
			for i := range uint32(100_000) {
				write(w, frame(framePush, endHeaders, 1, string(binary.BigEndian.AppendUint32(nil, 2*i+2))+blockOK), 1)
			}
		}, shake, ""},
	} {
		t.Run(name, func(t *testing.T) {
			from := len(r.log.String())
			read.Store(0)
			c, said := own.raw(files, hello{Name: "bad", Process: name, Protocol: helloProtocol})
			if said.Refused != "" {
				t.Fatal(said.Refused)
			}
			if err := asked(c); err != nil {
				t.Fatal(err)
			}
			write(c, noSettings, 1)
			tt.attack(c)
			r.says("p", 200, "good")
			_, _ = io.Copy(io.Discard, c) // until the front closes the connection
			r.until("end of the link", func() bool { return strings.Contains(r.log.String()[from:], "a worker is not linked any more") })
			c.Close()
			if n := read.Load(); n > tt.most {
				t.Errorf("the front has read %d bytes, want at most %d", n, tt.most)
			}
			if tt.why != "" && !strings.Contains(r.log.String()[from:], tt.why) {
				t.Errorf("want the reason %q:\n%s", tt.why, r.log.String()[from:])
			}
			r.says("p", 200, "good")
		})
	}
	if _, said := r.raw(files, hello{Name: "bad", Protocol: helloProtocol + 1}); !strings.Contains(said.Refused, "version") {
		t.Errorf("another version: %+v", said)
	}
}

// A line of a state is bounded, also for a worker that follows all rules of HTTP/2: the
// worker can send no more than the front reads of a line, and its link ends.
func TestStateWithoutEnd(t *testing.T) {
	r := newRig(t, nil)
	m := r.worker("good", r.cert("good", WorkerDNS("good")), echo("good"), "p")
	sent := make(chan int, 16)
	r.answers = func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		piece, n := []byte(strings.Repeat("x", 16<<10)), 0
		for n < 4*maxState {
			if _, err := w.Write(piece); err != nil {
				break
			}
			n += len(piece)
		}
		select {
		case sent <- n:
		default:
		}
	}
	bad := r.unlinked("bad", r.cert("bad", WorkerDNS("bad")), echo("bad"))
	l := r.front.roster.named("good")
	if n := await(t, sent, "the end of what the worker sends"); n < maxState/2 || n > maxState+2*maxBuffer {
		t.Errorf("%d bytes of one line are taken, want at most %d and what is on its way", n, maxState)
	}
	bad.stop()
	r.says("p", 200, "good")
	if r.front.roster.named("good") != l {
		t.Error("the link of another worker has ended")
	}
	m.stop()
}

// The headers of an answer are bounded: an answer with too many of them does not reach a
// client.
func TestLongHeadersOfAnAnswer(t *testing.T) {
	r := newRig(t, nil)
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, req *http.Request) {
		size := maxHeader / 4
		if body, _ := io.ReadAll(req.Body); strings.Contains(string(body), "long") {
			size = 2 * maxHeader
		}
		for i := range size / 1024 {
			w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1024))
		}
		fmt.Fprint(w, "answer")
	}, "p")
	for body, want := range map[string]string{`{"id":1}`: "answer", `{"id":2,"method":"long"}`: `{"lost":2}`} {
		res, err := http.Post(r.http.URL+"/p/mcp", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if string(text) != want || (res.Header.Get("X-0") != "") != (want == "answer") {
			t.Errorf("%s: %q with %d headers, want %q", body, text, len(res.Header), want)
		}
	}
	r.says("p", 200, "answer")
}

// A hostile front with a valid certificate does not harm its worker: the front gets answers
// to its requests, within the bounds of a link.
func TestHostileFront(t *testing.T) {
	r := newRig(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	front, err := r.cert("evil", "", "127.0.0.1").open()
	if err != nil {
		t.Fatal(err)
	}
	var begun atomic.Int64
	w, err := NewWorker(WorkerConfig{
		Name: "w1", Fronts: []string{"https://" + l.Addr().String()}, Credentials: r.cert("w1", WorkerDNS("w1")), Log: r.front.cfg.Log,
		Places: func() []string { return []string{"p"} }, Enter: func(p string) (func(), bool) { return func() {}, p == "p" },
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			begun.Add(1)
			<-req.Context().Done()
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	// request is GET / for the place "p", with names from the static table of HPACK.
	request := "\x82\x86\x84" + field("belljar-place", "p")
	long := strings.Repeat(field("x", strings.Repeat("y", 967)), maxFrame/1024) // 1000 bytes each, by the count of HTTP/2
	bomb := frame(frameContinuation, 0, 1, strings.Repeat(field("x", ""), 1024))
	for _, tt := range []struct {
		name   string
		attack func(io.Writer)
		begun  int64  // number of requests that begin
		memory uint64 // maximum number of bytes that are allocated
	}{
		{"garbage", func(w io.Writer) { write(w, "garbage\xff", 4000) }, 0, 1 << 20},
		{"a header", func(w io.Writer) {
			write(w, frame(frameHeaders, 0, 1, request)+frame(frameContinuation, endHeaders, 1, long), 1)
		}, 1, 1 << 20},
		{"a header that is too long", func(w io.Writer) {
			write(w, frame(frameHeaders, 0, 1, request), 1)
			write(w, frame(frameContinuation, 0, 1, long), maxHeader/maxFrame)
			write(w, frame(frameContinuation, endHeaders, 1, long), 1)
		}, 0, 1 << 20},
		{"a header without end", func(w io.Writer) {
			write(w, frame(frameHeaders, 0, 1, request), 1)
			write(w, bomb, 10_000)
		}, 0, 1 << 20},
		{"streams", func(w io.Writer) {
			for i := range uint32(100_000) {
				write(w, frame(frameHeaders, endHeaders, 2*i+1, request), 1)
			}
		}, maxStreams, maxStreams * (32 << 10)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := r.acceptLink(l, front)
			begun.Store(0)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			read := make(chan error, 1)
			go func() {
				read <- frames(c, func(kind, flags byte, _ int) bool { return kind == framePing && flags == ack })
			}()
			write(c, preface+noSettings, 1)
			tt.attack(c)
			write(c, frame(framePing, 0, 0, "12345678"), 1)
			// any other error means that the worker has ended the link
			if err := <-read; errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			runtime.ReadMemStats(&after)
			r.until("requests", func() bool { return begun.Load() >= tt.begun })
			if n := begun.Load(); n > tt.begun {
				t.Errorf("%d requests have begun, want %d", n, tt.begun)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > tt.memory {
				t.Errorf("%d bytes were allocated, want at most %d", n, tt.memory)
			}
			c.Close()
		})
	}
	cancel()
	select {
	case err := <-over:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second * testenv.Patience(t)):
		t.Fatal("the worker does not end")
	}
}

// acceptLink accepts a link of a worker, as a front does.
func (r *rig) acceptLink(l net.Listener, files *certificates) net.Conn {
	r.t.Helper()
	c, _ := r.acceptHello(l, files, welcome{})
	return c
}

// acceptHello accepts a connection of a worker with a welcome, and returns its hello too.
func (r *rig) acceptHello(l net.Listener, files *certificates, says welcome) (net.Conn, hello) {
	r.t.Helper()
	raw, err := l.Accept()
	if err != nil {
		r.t.Fatal(err)
	}
	c := tls.Server(raw, files.server())
	r.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute * testenv.Patience(r.t)))
	var said hello
	if err := receive(c, &said); err != nil {
		r.t.Fatal(err)
	}
	if err := send(c, says); err != nil {
		r.t.Fatal(err)
	}
	return c, said
}

// overLink returns a request as it arrives over a link.
func overLink(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), connKey{}, newConn(nil)))
}
