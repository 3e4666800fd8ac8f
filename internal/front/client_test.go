package front

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/time/rate"

	"belljar.dev/internal/testenv"
)

// pipes is a listener for connections that a test dials in memory, when it wants.
type pipes struct {
	net.Listener
	dialed chan net.Conn
	quit   chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialed:
		return conn, nil
	case <-p.quit:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) Close() error {
	close(p.quit)
	return nil
}

// inMemory serves a client of a front over a pipe, in a bubble of synctest. If there is a
// certificate, it uses TLS. end closes the client's end, and ends the front.
func inMemory(t *testing.T, certificate *keyPair) (conn net.Conn, end func()) {
	p := &pipes{dialed: make(chan net.Conn), quit: make(chan struct{})}
	f := &Front{
		listener: &boundedListener{Listener: p, tally: &tally{total: 1}}, streams: &tally{total: 2},
		mux: http.NewServeMux(), log: slog.New(slog.DiscardHandler), warnings: rate.NewLimiter(1, 1), keyPair: certificate,
	}
	f.Handle("/mcp", http.HandlerFunc(echo))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.Serve(ctx, func() error { return nil }) }()
	here, there := net.Pipe()
	p.dialed <- there
	return here, func() {
		here.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
}

// caller is a connection from an address.
type caller struct {
	net.Conn
	from   string
	closed chan struct{}
	once   sync.Once
}

func (c *caller) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.from))
}

func (c *caller) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// The connections of one address are bounded, and so are all connections together,
// including those from this machine and from proxies. A connection that is closed makes
// room once.
func TestConnectionsAreBounded(t *testing.T) {
	p := &pipes{dialed: make(chan net.Conn, 100), quit: make(chan struct{})}
	refused := make(chan netip.Addr, 100)
	proxy := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	c := &boundedListener{Listener: p, tally: &tally{most: 2, total: 6, exempt: proxy, open: make(map[netip.Addr]int)}, refused: func(from netip.Addr) { refused <- from }}
	call := func(from string) *caller {
		one := &caller{from: from, closed: make(chan struct{})}
		p.dialed <- one
		return one
	}
	var open []net.Conn
	accepts := func(want ...string) {
		t.Helper()
		for _, from := range want {
			conn, err := c.Accept()
			if err != nil || conn.RemoteAddr().String() != from {
				t.Errorf("accepted %v, %v; want %s", conn, err, from)
				return
			}
			open = append(open, conn)
		}
	}
	call("192.0.2.1:1")
	call("192.0.2.1:2")
	third := call("192.0.2.1:3")
	call("[2001:db8::1]:1")
	call("[2001:db8::2]:1")
	sixth := call("[2001:db8::3]:1") // from the same client as the connections before
	call("10.1.2.3:1")
	call("127.0.0.1:1")
	accepts("192.0.2.1:1", "192.0.2.1:2", "[2001:db8::1]:1", "[2001:db8::2]:1", "10.1.2.3:1", "127.0.0.1:1")
	<-third.closed
	<-sixth.closed
	last := []*caller{call("127.0.0.1:2"), call("10.1.2.3:2"), call("198.51.100.1:1")}
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		accepts("127.0.0.1:3")
	}()
	for _, one := range last { // the maximum number of connections is open
		<-one.closed
	}
	for range 2 {
		open[0].Close()
	}
	call("127.0.0.1:3")
	<-accepted
	if c.all != 6 || len(refused) != 5 {
		t.Errorf("%d are open, and %d were refused; want 6 and 5", c.all, len(refused))
	}
	for _, conn := range open {
		conn.Close()
	}
	if c.all != 0 || len(c.open) != 0 {
		t.Errorf("%d are open when all are closed, of %v", c.all, c.open)
	}
}

// A client that sends requests and does not read the answers is disconnected, although it
// could still send and has not logged in.
func TestClientsThatDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, end := inMemory(t, nil)
		defer end()
		began := time.Now()
		_ = conn.SetWriteDeadline(began.Add(time.Hour))
		requests := strings.Repeat("GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", 1000)
		_, err := io.WriteString(conn, requests)
		if took := time.Since(began); !errors.Is(err, io.ErrClosedPipe) || took > writeWait+time.Second {
			t.Errorf("a client that reads nothing could send until %v, %v", took, err)
		}
	})
}

// multiplexed is the client's end of a connection over HTTP/2. It does not accept any byte
// of an answer's body.
type multiplexed struct {
	*http2.Framer
	t    *testing.T
	last uint32 // number of the last stream
}

// overHTTP2 runs a client of a front in a bubble of synctest.
func overHTTP2(t *testing.T, do func(c *multiplexed)) {
	dir := t.TempDir()
	text, secret := newAuthority(t).issue(t, 1, time.Now().Add(time.Hour))
	cert, key := store(t, dir+"/cert.pem", text), store(t, dir+"/key.pem", secret)
	synctest.Test(t, func(t *testing.T) {
		pair, err := openKeyPair(cert, key, "", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		pipe, end := inMemory(t, pair)
		defer end()
		conn := tls.Client(pipe, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Hour))
		if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
			t.Fatal(err)
		}
		c := &multiplexed{Framer: http2.NewFramer(conn, conn), t: t}
		if err := c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
			t.Fatal(err)
		}
		do(c)
	})
}

// get sends a request in a new stream.
func (c *multiplexed) get() (stream uint32) {
	c.t.Helper()
	var header bytes.Buffer
	names := hpack.NewEncoder(&header)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", "/nowhere"}} {
		if err := names.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			c.t.Fatal(err)
		}
	}
	c.last += 2
	stream = c.last - 1
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: header.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
		c.t.Fatal(err)
	}
	return stream
}

// began waits until a stream has an answer. It returns false if the stream was reset.
func (c *multiplexed) began(stream uint32) bool {
	c.t.Helper()
	for {
		f, err := c.ReadFrame()
		if err != nil {
			c.t.Fatal(err)
		}
		if f.Header().StreamID == stream {
			_, reset := f.(*http2.RSTStreamFrame)
			return !reset
		}
	}
}

// Over HTTP/2, a client may read everything except the body of an answer. Such an answer
// ends after writeWait.
func TestStreamsThatAreNotRead(t *testing.T) {
	overHTTP2(t, func(c *multiplexed) {
		began := time.Now()
		stream := c.get()
		for c.began(stream) { // the headers arrive immediately
		}
		if took := time.Since(began); took < time.Second || took > writeWait+time.Second {
			t.Errorf("an answer that nobody reads ended after %v", took)
		}
	})
}

// Requests over HTTP/2 are bounded like connections: one connection can have many requests,
// and each of them costs as much as a connection, also for a client that cannot log in.
func TestStreamsAreBounded(t *testing.T) {
	overHTTP2(t, func(c *multiplexed) {
		first := c.get()
		if !c.began(first) || !c.began(c.get()) {
			t.Fatal("a request within the bound was not answered")
		}
		if c.began(c.get()) {
			t.Error("a third request was answered, while nobody read the answers of the first two")
		}
		if err := c.WriteRSTStream(first, http2.ErrCodeCancel); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !c.began(c.get()) {
			t.Error("no request was answered after the end of another one")
		}
	})
}

// slowToSet is a connection on which setting the first deadline takes 50 ms.
type slowToSet struct {
	net.Conn
	setting chan struct{} // closed when the first deadline is being set
	began   atomic.Bool

	mu   sync.Mutex
	last time.Time // guarded by mu
}

func (c *slowToSet) SetWriteDeadline(t time.Time) error {
	if c.began.CompareAndSwap(false, true) {
		close(c.setting)
		testenv.Delay(context.Background(), 50*time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = t
	return nil
}

func (*slowToSet) Write(p []byte) (int, error) { return len(p), nil }

// A deadline that is set while a write begins is not replaced by the usual deadline.
func TestOwnDeadlineHolds(t *testing.T) {
	conn := &slowToSet{setting: make(chan struct{})}
	c := &client{Conn: conn}
	var writing sync.WaitGroup
	writing.Go(func() { _, _ = c.Write([]byte("x")) })
	<-conn.setting
	own := time.Now().Add(time.Second)
	if err := c.SetWriteDeadline(own); err != nil {
		t.Fatal(err)
	}
	writing.Wait()
	if !conn.last.Equal(own) {
		t.Errorf("the deadline is %v later than the own one", conn.last.Sub(own))
	}
}
