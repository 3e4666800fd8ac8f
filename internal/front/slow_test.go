package front

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A client that sends one byte of its headers per second is disconnected. A client that
// sends nothing is disconnected too, before its first request and after a request.
func TestClientsThatDoNotSend(t *testing.T) {
	for name, tt := range map[string]struct {
		send    func(w io.Writer) error
		answers int
		after   time.Duration
	}{
		"nothing": {func(io.Writer) error { return nil }, 0, headerWait},
		"headers, a byte a second": {func(w io.Writer) error {
			for _, c := range []byte("GET /mcp HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 100)) {
				if _, err := w.Write([]byte{c}); err != nil {
					return err
				}
				time.Sleep(time.Second) // in the time of the bubble
			}
			return nil
		}, 0, headerWait},
		"one request": {func(w io.Writer) error {
			_, err := io.WriteString(w, "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
			return err
		}, 1, idleWait},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, end := inMemory(t, nil)
				defer end()
				began := time.Now()
				_ = conn.SetReadDeadline(began.Add(time.Hour))
				var sending sync.WaitGroup
				defer sending.Wait()
				sending.Go(func() { _ = tt.send(conn) }) // send fails after the server has closed the connection
				all, err := io.ReadAll(conn)
				if took := time.Since(began); err != nil || took < tt.after || took > tt.after+2*time.Second {
					t.Errorf("disconnected after %v, %v; want %v", took, err, tt.after)
				}
				if n := strings.Count(string(all), "HTTP/1.1 200 OK"); n != tt.answers {
					t.Errorf("%d answers: %q", n, all)
				}
			})
		})
	}
}

// The headers of a request are bounded, and a header cannot contain the end of another
// header: such a request reaches no route.
func TestOddHeaders(t *testing.T) {
	f := start(t, Config{})
	var visits atomic.Int64
	f.Handle("/visited", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	for _, tt := range []struct {
		name, header string
		want         int
	}{
		{"a token of 64 KiB", "Authorization: Bearer " + strings.Repeat("x", 64<<10), 431},
		{"a session of a mebibyte", "Mcp-Session-Id: " + strings.Repeat("x", 1<<20), 431},
		{"10,000 headers", strings.TrimSuffix(strings.Repeat("X: y\r\n", 10_000), "\r\n"), 431},
		{"a carriage return in a session", "Mcp-Session-Id: a\rX-Other: b", 400},
		{"NUL in a session", "Mcp-Session-Id: a\x00b", 400},
		{"a name with a space", "Mcp Session-Id: a", 400},
		{"a header that is folded", "Mcp-Session-Id: a\r\n b: c", 200}, // the value is one line, with a space
		{"headers of 8 KiB", "X: " + strings.Repeat("x", 8<<10), 200},
	} {
		before := visits.Load()
		if res := f.raw(t, "GET /visited HTTP/1.1\r\nHost: localhost\r\n"+tt.header+"\r\n\r\n"); res.StatusCode != tt.want {
			t.Errorf("%s: %s, want %d", tt.name, res.Status, tt.want)
		}
		if seen := visits.Load() > before; seen != (tt.want == 200) {
			t.Errorf("%s: the route was reached: %t", tt.name, seen)
		}
	}
}

// No WebSocket can be opened over HTTP/2: neither with extended CONNECT (RFC 8441), which
// the server does not offer, nor with the headers of HTTP/1.1, which do not exist in
// HTTP/2.
func TestNoWebSocketOverHTTP2(t *testing.T) {
	for name, fields := range map[string][][2]string{
		"extended CONNECT": {{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", "/mcp"}, {"origin", "https://evil.example"}},
		"CONNECT to us":    {{":method", "CONNECT"}, {":authority", "localhost:1"}},
		"an upgrade":       {{":method", "GET"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", "/mcp"}, {"connection", "upgrade"}, {"upgrade", "websocket"}},
	} {
		t.Run(name, func(t *testing.T) {
			overHTTP2(t, func(c *multiplexed) {
				var header bytes.Buffer
				names := hpack.NewEncoder(&header)
				for _, f := range fields {
					if err := names.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: header.Bytes(), EndHeaders: true}); err != nil {
					t.Fatal(err)
				}
				c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
				for {
					f, err := c.ReadFrame()
					if err != nil {
						t.Fatal(err)
					}
					switch f := f.(type) {
					case *http2.SettingsFrame:
						if on, _ := f.Value(http2.SettingEnableConnectProtocol); on != 0 {
							t.Error("the server offers extended CONNECT")
						}
					case *http2.RSTStreamFrame:
						return
					case *http2.MetaHeadersFrame:
						if status := f.PseudoValue("status"); status < "400" {
							t.Errorf("it is answered with %s", status)
						}
						return
					}
				}
			})
		})
	}
}
