package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
)

// withSockets turns WebSockets on.
func withSockets(c *mcp.Config) { c.Sockets = true }

// The kinds of frames (RFC 6455, 5.2).
const (
	more    = 0
	text    = 1
	binData = 2
	closing = 8
	ping    = 9
	pong    = 10
	fin     = 0x80
)

// frame is a frame of a client, whose first byte has the flags and the kind.
func frame(first byte, payload string) string {
	var b bytes.Buffer
	b.WriteByte(first)
	switch n := len(payload); {
	case n < 126:
		b.WriteByte(0x80 | byte(n))
	case n < 1<<16:
		b.WriteByte(0x80 | 126)
		b.Write(binary.BigEndian.AppendUint16(nil, uint16(n)))
	default:
		b.WriteByte(0x80 | 127)
		b.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	mask := [4]byte{1, 2, 3, 4}
	b.Write(mask[:])
	for i := range len(payload) {
		b.WriteByte(payload[i] ^ mask[i%4])
	}
	return b.String()
}

// sock is the client's end of a WebSocket, without a library.
type sock struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
	mute bool // the client does not answer pings
}

// handshake returns the request for a WebSocket. Each line ends with CR LF.
func handshake(path string, lines ...string) string {
	all := append([]string{
		"GET " + path + " HTTP/1.1", "Host: localhost", "Connection: keep-alive, Upgrade", "Upgrade: websocket",
		"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
	}, lines...)
	return strings.Join(all, "\r\n") + "\r\n\r\n"
}

const offersMCP = "Sec-WebSocket-Protocol: mcp"

// dial opens a connection to the site.
func (s *site) dial() net.Conn {
	s.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(s.t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

// ask sends a request for a WebSocket.
func ask(t testing.TB, conn net.Conn, request string) (*sock, *http.Response) {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatalf("the answer to %q: %v", request, err)
	}
	return &sock{t: t, conn: conn, in: in}, res
}

// socket opens a WebSocket.
func (s *site) socket(lines ...string) *sock {
	s.t.Helper()
	c, res := ask(s.t, s.dial(), handshake("/mcp", append(lines, offersMCP)...))
	if res.StatusCode != 101 || res.Header.Get("Sec-WebSocket-Protocol") != "mcp" || res.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		body, _ := io.ReadAll(res.Body)
		s.t.Fatalf("the handshake: %s %v %s", res.Status, res.Header, body)
	}
	return c
}

// write sends bytes. It ignores errors: a read finds out that the server has closed the
// connection.
func (c *sock) write(all ...string) {
	for _, one := range all {
		if _, err := io.WriteString(c.conn, one); err != nil {
			return
		}
	}
}

// send sends messages.
func (c *sock) send(messages ...string) {
	for _, m := range messages {
		c.write(frame(fin|text, m))
	}
}

// frame reads a frame.
func (c *sock) frame() (kind byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return 0, nil, err
	}
	n := uint64(head[1])
	long := make([]byte, map[uint64]int{126: 2, 127: 8}[n])
	if _, err := io.ReadFull(c.in, long); err != nil {
		return 0, nil, err
	}
	if len(long) > 0 {
		n = binary.BigEndian.Uint64(append(make([]byte, 8-len(long)), long...))
	}
	if head[0]&0x70 != 0 || head[0]&fin == 0 || n > 16<<20 {
		return 0, nil, fmt.Errorf("the server sent the frame %x of %d bytes", head, n)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(c.in, payload)
	return head[0] & 0x0f, payload, err
}

// closed is how a WebSocket was closed.
type closed struct {
	code   int
	reason string
}

func (c closed) Error() string { return fmt.Sprintf("closed with %d %s", c.code, c.reason) }

// read returns the next message, and answers pings meanwhile.
func (c *sock) read() (string, error) {
	for {
		kind, payload, err := c.frame()
		switch {
		case err != nil:
			return "", err
		case kind == text:
			return string(payload), nil
		case kind == ping && !c.mute:
			c.write(frame(fin|pong, string(payload)))
		case kind == closing && len(payload) >= 2:
			c.write(frame(fin|closing, string(payload)))
			return "", closed{int(binary.BigEndian.Uint16(payload)), string(payload[2:])}
		case kind == binData, kind == more:
			return "", fmt.Errorf("the server sent a frame of the kind %d", kind)
		}
	}
}

func (c *sock) next() answer {
	c.t.Helper()
	message, err := c.read()
	if err != nil {
		c.t.Fatalf("no message: %v", err)
	}
	return parse(c.t, message)
}

// end returns how the server closes the WebSocket. It drops earlier messages.
func (c *sock) end() (at closed) {
	c.t.Helper()
	for {
		if _, err := c.read(); err != nil {
			if !errors.As(err, &at) {
				c.t.Errorf("the connection ended without a close frame: %v", err)
			}
			return at
		}
	}
}

// greet performs the handshake of MCP.
func (c *sock) greet() *sock {
	c.t.Helper()
	c.send(fmt.Sprintf(hello, revLegacy))
	if a := c.next(); a.Error != nil {
		c.t.Fatalf("initialize: %s", a.raw)
	}
	c.send(initialized)
	return c
}

// greetSoon opens a WebSocket and performs the handshake of MCP, as soon as another client
// has left its place.
func (s *site) greetSoon(lines ...string) (c *sock) {
	s.t.Helper()
	if !testenv.Until(20*time.Second, func() bool {
		c = s.socket(lines...)
		c.send(fmt.Sprintf(hello, revLegacy))
		_, err := c.read()
		return err == nil
	}) {
		s.t.Fatal("no place became free")
	}
	c.send(initialized)
	return c
}

// A conversation over a WebSocket contains the same bytes as one over stdio.
func TestWebSocket(t *testing.T) {
	s := newSite(t, withSockets)
	c, over := s.socket().greet(), s.connect(t)
	over.greet(revLegacy)
	for _, tt := range sameOverAll {
		body := strings.Replace(tt.body, "%s", revLegacy, 1)
		c.send(body)
		over.send(body)
		got, want := c.next().raw, over.next().raw
		if !strings.Contains(got, tt.want) || short(got) != short(want) {
			t.Errorf("%.80s:\n got %.300s\nwant %.300s", body, got, want)
		}
	}
	c.send(strings.Replace(call("20", "steps", `{}`), `"params":{`, `"params":{"_meta":{"progressToken":"p"},`, 1))
	for i := range 4 {
		if a := c.next(); (a.Method == "notifications/progress") != (i < 3) {
			t.Errorf("message %d of a call with progress: %s", i, a.raw)
		}
	}
	c.send(call("21", "hang", `{}`))
	<-s.running
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":21}}`)
	<-s.cancelled
	c.send(`{"jsonrpc":"2.0","id":22,"method":"resources/subscribe","params":{"uri":"note://7"}}`)
	if a := c.next(); a.short() != "22: ok" {
		t.Errorf("subscribe: %s", a.raw)
	}
	s.Updated("local", "note://7")
	if a := c.next(); a.Method != "notifications/resources/updated" {
		t.Errorf("an update: %s", a.raw)
	}
	c.send(modern("23", "tools/call", `"name":"echo","arguments":{"text":"young"},`))
	if a := c.next(); a.text() != "young" || !strings.Contains(a.raw, `"resultType":"complete"`) {
		t.Errorf("a modern call: %s", a.raw)
	}
	kinds := map[string]int{}
	for _, i := range s.Sessions() {
		kinds[i.Transport+" "+i.Client]++
	}
	if kinds["websocket test"] != 1 || kinds["stdio test"] != 1 {
		t.Errorf("the sessions are %v", kinds)
	}
	c.write(frame(fin|closing, "\x03\xe8"))
	if at := c.end(); at.code != 1000 {
		t.Errorf("a client that closes: %v", at)
	}
	<-s.ended
}

// Each row is a text that a client sends in place of a message. If the server answers it,
// the conversation continues.
func TestWebSocketFrames(t *testing.T) {
	s := newSite(t, withSockets)
	say := call("1", "echo", `{"text":"hi"}`)
	cut := func(message string, size int) (all string) {
		kind := byte(text)
		for len(message) > size {
			all += frame(kind, message[:size])
			message, kind = message[size:], more
		}
		return all + frame(fin|kind, message)
	}
	pad := func(n int) string { return say + strings.Repeat(" ", n-len(say)) }
	for _, tt := range []struct {
		name, send string
		want       string // text that the answer must contain
		code       int    // code with which the server closes
	}{
		{"a message", frame(fin|text, say), "1: ok", 0},
		{"100 frames", cut(pad(100), 1), "1: ok", 0},
		{"1 MiB", frame(fin|text, pad(1<<20)), "1: ok", 0},
		{"1 MiB in 16 frames", cut(pad(1<<20), 64<<10), "1: ok", 0},
		{"a ping between two frames", frame(text, say[:9]) + frame(fin|ping, "x") + frame(fin|more, say[9:]), "1: ok", 0},
		{"nothing, and then a message", frame(fin|text, "") + frame(fin|text, say), "1: ok", 0},
		{"line feeds in one value", frame(fin|text, strings.ReplaceAll(say, ",", ",\n")), "1: ok", 0},
		{"a byte order mark, as over stdio", frame(fin|text, "\ufeff"+say), "1: ok", 0},
		{"two values", frame(fin|text, say+say), "null: -32700", 0},
		{"two lines", frame(fin|text, say+"\n"+say), "null: -32700", 0},
		{"not JSON", frame(fin|text, "hello"), "null: -32700", 0},
		{"a duplicate member", frame(fin|text, `{"jsonrpc":"2.0","id":1,"method":"ping","id":2}`), "null: -32600", 0},
		{"deep", frame(fin|text, nest("[", "]", 900)), "7: -32600", 0},
		{"a token in _meta", frame(fin|text, strings.Replace(say, `"params":{`, `"params":{"_meta":{"access_token":"x"},`, 1)), "1: -32600", 0},
		{"a batch after its time", frame(fin|text, "["+say+"]"), "1: -32600", 0},

		{"bytes", frame(fin|binData, say), "", 1003},
		{"not UTF-8", frame(fin|text, strings.Replace(say, "hi", "\xff", 1)), "", 1007},
		{"1 MiB and a byte", frame(fin|text, pad(1<<20+1)), "", 1009},
		{"2 MiB", frame(fin|text, pad(2<<20)), "", 1009},
		{"2 MiB in frames", cut(pad(2<<20), 64<<10), "", 1009},
		{"10,000 frames of a byte", cut(pad(10_000), 1), "", 1008},
		{"an unmasked frame", "\x81\x02{}", "", 1002},
		{"a compressed frame", frame(fin|0x40|text, say), "", 1002},
		{"reserved bits", frame(fin|0x20|text, say), "", 1002},
		{"an unknown kind", frame(fin|3, say), "", 1002},
		{"a ping of 126 bytes", frame(fin|ping, strings.Repeat("x", 126)), "", 1002},
		{"half a ping", frame(ping, "x"), "", 1002},
		{"the rest of no message", frame(fin|more, say), "", 1002},
		{"a message in another one", frame(text, say) + frame(fin|text, say), "", 1002},
		{"a negative length", "\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff", "", 1002},
		{"a close frame of a byte", frame(fin|closing, "x"), "", 1002},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := s.socket().greet()
			c.t = t
			go c.write(tt.send) // in a goroutine, because the server may close before it has read everything
			if tt.code != 0 {
				if at := c.end(); at.code != tt.code || at.reason == "" {
					t.Errorf("got %v, want %d and why", at, tt.code)
				}
				<-s.ended
				return
			}
			if a := c.next(); a.short() != tt.want {
				t.Errorf("got %.200s, want %s", a.raw, tt.want)
			}
			c.send(req("99", "ping"))
			if a := c.next(); a.short() != "99: ok" {
				t.Errorf("after that: %s", a.raw)
			}
			c.conn.Close()
			<-s.ended
		})
	}
}

// Each row is a handshake. A handshake that is refused leaves nothing behind.
func TestWebSocketHandshake(t *testing.T) {
	_, with := newOffice(t, "tenants: {a: {}, b: {}}\n")
	var mu sync.Mutex
	var log bytes.Buffer
	s := newSite(t, with, withSockets, withSSE, func(c *mcp.Config) {
		c.Limits.TenantSessions = 1
		c.Log = slog.New(slog.NewTextHandler(locked{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	const token = "Authorization: Bearer token-a/ann"
	good := handshake("/mcp", token, offersMCP)
	for _, tt := range []struct {
		name, request string
		want          int
	}{
		{"a client", good, 101},
		{"a page of its own", handshake("/mcp", token, offersMCP, "Origin: http://localhost"), 101},
		{"one that compresses", handshake("/mcp", token, offersMCP, "Sec-WebSocket-Extensions: permessage-deflate"), 101},
		{"no token", handshake("/mcp", offersMCP), 401},
		{"a bad token", handshake("/mcp", "Authorization: Bearer token-c", offersMCP), 401},
		{"two tokens", handshake("/mcp", token, token, offersMCP), 401},
		{"a token in the URL", handshake("/mcp?access_token=token-a", offersMCP), 400},
		{"a token in a cookie", handshake("/mcp", token, "Cookie: access_token=token-a", offersMCP), 400},
		{"no subprotocol", handshake("/mcp", token), 400},
		{"another subprotocol", handshake("/mcp", token, "Sec-WebSocket-Protocol: foo"), 400},
		{"a token as a subprotocol", handshake("/mcp", token, "Sec-WebSocket-Protocol: mcp, mcp.auth.SECRET"), 400},
		{"a token as another header's subprotocol", handshake("/mcp", token, offersMCP, "Sec-WebSocket-Protocol: SECRET"), 400},
		{"a foreign page", handshake("/mcp", token, offersMCP, "Origin: https://evil.example"), 403},
		{"a page of nobody", handshake("/mcp", token, offersMCP, "Origin: null"), 403},
		{"two pages", handshake("/mcp", token, offersMCP, "Origin: http://localhost", "Origin: https://evil.example"), 403},
		{"a name that leads here", strings.Replace(good, "Host: localhost", "Host: evil.example", 1), 403},
		{"an older version", strings.Replace(good, "Version: 13", "Version: 8", 1), 400},
		{"no key", strings.Replace(good, "Sec-WebSocket-Key", "X", 1), 400},
		{"a short key", strings.Replace(good, "dGhl", "", 1), 400},
		{"two keys", handshake("/mcp", token, offersMCP, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="), 400},
		{"no upgrade of the connection", strings.Replace(good, "keep-alive, Upgrade", "keep-alive", 1), 426},
		{"another method", strings.Replace(good, "GET", "POST", 1), 405},
		{"HTTP/1.0", strings.Replace(good, "HTTP/1.1", "HTTP/1.0", 1), 426},
		{"an older transport", strings.Replace(good, "/mcp", "/messages", 1), 405},
		{"a client, after all of that", good, 101},
	} {
		for range 2 { // the second round would fail if the place were not released
			c, res := ask(t, s.dial(), tt.request)
			if res.StatusCode != tt.want || tt.want == 101 && res.Header.Get("Sec-WebSocket-Extensions") != "" {
				body, _ := io.ReadAll(res.Body)
				t.Errorf("%s: %s %v %.200s, want %d", tt.name, res.Status, res.Header, body, tt.want)
			}
			if res.StatusCode == 101 {
				c.conn.Close()
				s.greetSoon(token).conn.Close()
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, secret := range []string{"SECRET", "token-a"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %s:\n%s", secret, &log)
		}
	}
}

// locked is a writer for several goroutines.
type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func TestWebSocketIsOff(t *testing.T) {
	s := newSite(t)
	_, res := ask(t, s.dial(), handshake("/mcp", offersMCP))
	if body, _ := io.ReadAll(res.Body); res.StatusCode != 404 || !strings.Contains(string(body), "--websocket") {
		t.Errorf("%s %s", res.Status, body)
	}
}

// A client that must wait for a place gets a close code, which web pages can see, too.
func TestWebSocketPlaces(t *testing.T) {
	s := newSite(t, withSockets, func(c *mcp.Config) { c.Limits.Sessions = 2 })
	one := s.socket().greet()
	web := s.greet() // Streamable HTTP uses the same places
	s.socket().greet()
	if id := <-s.ended; id != web[1] {
		t.Errorf("the session %s ended for another one, want the idle one", id)
	}
	if at := s.socket().end(); at.code != 1013 || !strings.Contains(at.reason, "sessions of this server are open") {
		t.Errorf("one too many: %v", at)
	}
	one.conn.Close()
	<-s.ended
	s.greetSoon()
}

// A WebSocket counts as a request of its tenant.
func TestWebSocketsHaveARate(t *testing.T) {
	_, with := newOffice(t, "tenants: {a: {}, b: {limit: {calls: 1/h, burst: 2}}}\n")
	s := newSite(t, with, withSockets)
	const token = "Authorization: Bearer token-"
	for range 2 {
		s.greetSoon(token + "a").conn.Close()
		s.socket(token + "b").conn.Close()
	}
	if at := s.socket(token + "b").end(); at.code != 1013 || !strings.Contains(at.reason, "too many requests") {
		t.Errorf("the third was closed with %v", at)
	}
	s.greetSoon(token + "a").conn.Close()
}

// The messages in flight of all sessions of a tenant have one limit together.
func TestWebSocketBytesInFlight(t *testing.T) {
	_, with := newOffice(t, "tenants: {a: {}}\n")
	s := newSite(t, with, withSockets, func(c *mcp.Config) { c.Limits.QueueBytes = 920 << 10 })
	large := func(id, tool string, kib int) string {
		return call(id, tool, `{"text":"hi","on_error":"`+strings.Repeat("x", kib<<10)+`"}`)
	}
	var all []*sock
	for range 3 {
		all = append(all, s.socket("Authorization: Bearer token-a").greet())
	}
	all[0].send(large("1", "hold", 900))
	<-s.running
	all[1].send(large("1", "hold", 900), req("2", "ping")) // waits for its turn
	if a := all[1].next(); a.short() != "2: ok" {
		t.Errorf("ping: %.300s", a.raw)
	}
	all[2].send(large("1", "hold", 900))
	if a := all[2].next(); a.short() != "1: -32003" || !strings.Contains(a.raw, "bytes_in_flight") {
		t.Errorf("the third large message: %.300s", a.raw)
	}
	all[0].conn.Close() // a client that disconnects cancels its running calls
	<-s.ended
	all[1].conn.Close()
	<-s.ended
	sent := 1
	if !testenv.Until(20*time.Second, func() bool { // their bytes are released shortly after their end
		sent++
		all[2].send(large(fmt.Sprint(sent), "echo", 1000))
		return all[2].next().short() == fmt.Sprint(sent)+": ok"
	}) {
		t.Error("after the others are over, a large message is refused still")
	}
}

// A client that disconnects needs no answers: its calls are cancelled.
func TestWebSocketGoesAway(t *testing.T) {
	for name, away := range map[string]func(*sock){
		"with a word":    func(c *sock) { c.write(frame(fin|closing, "\x03\xe9bye")); c.end() },
		"without a word": func(c *sock) { c.conn.Close() },
	} {
		s := newSite(t, withSockets)
		c := s.socket().greet()
		c.send(call("1", "hang", `{}`))
		<-s.running
		away(c)
		if err := <-s.cancelled; !errors.Is(err, mcp.ErrShutdown) {
			t.Errorf("%s: the cause is %v", name, err)
		}
		<-s.ended
	}
}

// The server states why it ends a conversation, after it has answered the running calls.
func TestWebSocketEnds(t *testing.T) {
	s := newSite(t, withSockets)
	c := s.socket().greet()
	s.End(func(mcp.SessionInfo) bool { return true }, "it is late")
	if at := c.end(); at.code != 1008 || !strings.Contains(at.reason, "it is late") {
		t.Errorf("a session that an operator ends: %v", at)
	}
	<-s.ended

	c = s.socket().greet()
	c.send(call("1", "hang", `{}`))
	<-s.running
	ended := s.endNow()
	for refused := false; !refused; { // until the server has begun to end
		c.send(req("2", "tools/list"))
		refused = c.next().Error != nil
	}
	close(s.free)
	if a := c.next(); a.text() != "free" {
		t.Errorf("the call that ran: %s", a.raw)
	}
	if at := c.end(); at.code != 1001 {
		t.Errorf("a server that ends: %v", at)
	}
	<-ended
	if at := s.socket().end(); at.code != 1013 {
		t.Errorf("after the end: %v", at)
	}
}

// pipes is a listener in memory. Its connections live in a synctest bubble.
type pipes struct {
	conns chan net.Conn
	over  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.over); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// bubble serves WebSockets in a synctest bubble, where the time is fake.
func bubble(t *testing.T, do func(h *handled, open func(lines ...string) *sock), change ...func(*mcp.Config)) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandled(t, append(change, withSockets)...)
		l := &pipes{conns: make(chan net.Conn), over: make(chan struct{})}
		server := &http.Server{Handler: h.handler}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(l) })
		do(h, func(lines ...string) *sock {
			ours, theirs := net.Pipe()
			l.conns <- theirs
			if lines == nil {
				lines = []string{offersMCP, "Authorization: Bearer token-a"}
			}
			c, res := ask(t, ours, handshake("/mcp", lines...))
			if res.StatusCode != 101 {
				t.Fatalf("the handshake: %s", res.Status)
			}
			return c
		})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = h.Shutdown(ctx)
		server.Close()
		serving.Wait()
	})
}

// ends reads until the server closes the WebSocket, and returns how it was closed and after
// what time.
func (c *sock) ends() (after time.Duration, at closed) {
	began := time.Now()
	at = c.end()
	return time.Since(began), at
}

// A client that sends nothing, or nothing valid, is disconnected after a time. A client
// that answers pings is not.
func TestWebSocketTimes(t *testing.T) {
	bubble(t, func(_ *handled, open func(...string) *sock) {
		if after, at := open().ends(); after != 2*time.Minute || at.code != 1008 || !strings.Contains(at.reason, "no message") {
			t.Errorf("a client that says nothing: after %v %v", after, at)
		}
		c := open().greet()
		c.mute = true
		if after, at := c.ends(); after != 30*time.Second || at.code != 1008 || !strings.Contains(at.reason, "pong") {
			t.Errorf("a client that answers no ping: after %v %v", after, at)
		}
		c = open().greet()
		c.write(frame(text, `{"jsonrpc"`))
		if after, at := c.ends(); after != 15*time.Second || at.code != 1008 || !strings.Contains(at.reason, "in time") {
			t.Errorf("half a message: after %v %v", after, at)
		}
		empty := open().greet()
		empty.write(frame(text, `{"jsonrpc"`))
		var sending sync.WaitGroup
		sending.Go(func() {
			for range 1000 { // a frame of no bytes does not end a message
				time.Sleep(100 * time.Millisecond) // fake time
				empty.write(frame(more, ""))
			}
		})
		if after, at := empty.ends(); after > 16*time.Second || at.code != 1008 {
			t.Errorf("frames of no bytes: after %v %v", after, at)
		}
		empty.conn.Close()
		sending.Wait()

		honest := open().greet()
		leave := time.AfterFunc(time.Hour+time.Second, func() { honest.write(frame(fin|closing, "\x03\xe8")) })
		defer leave.Stop()
		if after, at := honest.ends(); after < time.Hour || at.code != 1000 {
			t.Errorf("a client that answers pings: after %v %v", after, at)
		}
	})
}

// Clients that come within a moment are pinged at one time, so that the process wakes up
// once for them.
func TestWebSocketPingsTogether(t *testing.T) {
	bubble(t, func(_ *handled, open func(...string) *sock) {
		began := time.Now()
		var reading sync.WaitGroup
		var ended [3]time.Duration
		for i := range ended {
			c := open().greet()
			c.mute = true
			reading.Go(func() {
				c.ends()
				ended[i] = time.Since(began)
			})
			time.Sleep(10 * time.Millisecond) // fake time
		}
		reading.Wait()
		if ended != [3]time.Duration{30 * time.Second, 30 * time.Second, 30 * time.Second} {
			t.Errorf("clients that answer no ping are disconnected after %v, want 30s each", ended)
		}
	})
}

// inBubbles returns the number of goroutines in synctest bubbles. Goroutines of the runtime
// and of other tests do not count, because they start and end meanwhile.
func inBubbles(t *testing.T) int {
	t.Helper()
	stacks := make([]byte, 1<<20)
	n := runtime.Stack(stacks, true)
	if n == len(stacks) {
		t.Fatalf("the stacks of all goroutines do not fit into %d bytes", n)
	}
	return bytes.Count(stacks[:n], []byte(", synctest bubble "))
}

// Many idle WebSockets may be open. Each then has two goroutines, also after calls: one
// reads what its client sends, and the other belongs to the go-sdk.
func TestIdleWebSockets(t *testing.T) {
	bubble(t, func(_ *handled, open func(...string) *sock) {
		const n = 20
		goroutines := func() int {
			time.Sleep(10 * time.Second) // fake time
			synctest.Wait()
			return inBubbles(t)
		}
		before := goroutines()
		var all []*sock
		for range n {
			c := open().greet()
			for i := range 3 {
				c.send(call(fmt.Sprint(i), "echo", `{"text":"hi"}`))
				if a := c.next(); a.text() != "hi" {
					t.Errorf("a call: %s", a.raw)
				}
			}
			all = append(all, c)
		}
		if more := goroutines() - before; more > 2*n {
			t.Errorf("%d idle WebSockets have %d goroutines, want 2 each", n, more)
		}
		for i, c := range all {
			c.send(call("9", "echo", `{"text":"again"}`))
			if a := c.next(); a.text() != "again" {
				t.Errorf("WebSocket %d after a while: %s", i, a.raw)
			}
			c.conn.Close()
		}
	})
}

// The handler returns while the conversation continues. The code that mounts the handler is
// notified of the end of the conversation, and gets its session.
func TestWebSocketGoesOn(t *testing.T) {
	h := newHandled(t, withSockets)
	defer h.Shutdown(context.Background())
	returned, over := make(chan struct{}), make(chan *mcp.Served, 1)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		ctx, served := mcp.WithServed(r.Context())
		h.handler.ServeHTTP(rw, r.WithContext(ctx))
		served.WhenOver(func() { over <- served })
		close(returned)
	}))
	defer server.Close()
	s := &site{toy: h.toy, t: t, url: server.URL}
	c := s.socket().greet()
	<-returned
	c.send(call("1", "echo", `{"text":"hi"}`))
	if a := c.next(); a.text() != "hi" {
		t.Errorf("a call after the return of the handler: %s", a.raw)
	}
	select {
	case <-over:
		t.Error("it is over while the conversation goes on")
	default:
	}
	session := s.Sessions()[0].ID
	c.write(frame(fin|closing, "\x03\xe8"))
	served := <-over
	if served.Session != session || served.Tenant != "local" {
		t.Errorf("got the session %q of %q, want %q", served.Session, served.Tenant, session)
	}
	if len(s.Sessions()) != 0 {
		t.Error("it is over before its session is")
	}
}

// A client that does not read is disconnected. Until then it uses a limited amount of
// memory.
func TestWebSocketUnread(t *testing.T) {
	bubble(t, func(h *handled, open func(...string) *sock) {
		c := open().greet()
		began := time.Now()
		var sending sync.WaitGroup
		sent := 0
		sending.Go(func() {
			for { // writes block when the server accepts no more, and fail at its end
				if _, err := io.WriteString(c.conn, frame(fin|text, call(fmt.Sprint(sent), "big", `{"bytes":400000}`))); err != nil {
					return
				}
				sent++
			}
		})
		<-h.ended
		if after := time.Since(began); after > 40*time.Second {
			t.Errorf("the conversation ended after %v", after)
		}
		c.conn.Close()
		sending.Wait()
		if sent > 2000 { // 1,152 run or wait; the others are refused, and nobody reads their answers
			t.Errorf("%d messages were taken", sent)
		}
	})
}

// When a token expires, the conversation that began with it ends.
func TestWebSocketTokenExpires(t *testing.T) {
	o, with := newOffice(t, "tenants: {a: {}}\n")
	bubble(t, func(_ *handled, open func(...string) *sock) {
		if after, at := open().greet().ends(); after != 5*time.Minute || at.code != 1008 || !strings.Contains(at.reason, "token has expired") {
			t.Errorf("after %v %v", after, at)
		}
	}, with, func(c *mcp.Config) { c.Auth = &fiveMinutes{o} })
}

// When a token is revoked, the conversation that began with it ends immediately.
func TestWebSocketTokenIsRevoked(t *testing.T) {
	o, with := newOffice(t, "tenants: {a: {}}\n")
	s := newSite(t, with, withSockets)
	c := s.socket("Authorization: Bearer token-a/ann").greet()
	o.revoked.Store("token-a/ann", true)
	s.Reloaded()
	if at := c.end(); at.code != 1008 || !strings.Contains(at.reason, "no longer valid") {
		t.Errorf("closed with %v", at)
	}
}

// fiveMinutes is an Authenticator whose tokens expire after five minutes.
type fiveMinutes struct{ *office }

func (f *fiveMinutes) Authenticate(ctx context.Context, token string) (mcp.Identity, error) {
	id, err := f.office.Authenticate(ctx, token)
	id.Expires = time.Now().Add(5 * time.Minute)
	return id, err
}

// A ticket is valid for 30 seconds. A conversation that it opens lasts as long as the token
// is valid.
func TestTicketsExpire(t *testing.T) {
	o, with := newOffice(t, "tenants: {a: {}}\n")
	bubble(t, func(h *handled, open func(...string) *sock) {
		for _, tt := range []struct {
			wait time.Duration
			code int
			end  time.Duration
		}{{29 * time.Second, 1008, 5*time.Minute - 29*time.Second}, {31 * time.Second, 4001, 0}} {
			w := newPage()
			r := request(context.Background(), "POST", "/mcp/ticket")
			r.Header.Set("Authorization", "Bearer token-a")
			h.handler.ServeHTTP(w, r)
			protocol := ticketOf(t, w.status, w.text())
			time.Sleep(tt.wait) // fake time
			c := open("Sec-WebSocket-Protocol: mcp, " + protocol)
			if tt.code != 4001 {
				c.greet()
			}
			if after, at := c.ends(); after != tt.end || at.code != tt.code {
				t.Errorf("a ticket after %v: closed after %v, %v", tt.wait, after, at)
			}
		}
	}, with, func(c *mcp.Config) { c.Auth = &fiveMinutes{o} })
}
