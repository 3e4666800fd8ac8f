package front

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// A request whose end is ambiguous is the last one of its connection: bytes that a proxy
// takes for the rest of its body are never read as a request of another client.
func TestNoRequestHidesInAnother(t *testing.T) {
	const second = "GET /.well-known/oauth-protected-resource HTTP/1.1\r\nHost: localhost\r\n\r\n"
	const chunked = "Transfer-Encoding: chunked\r\n"
	for _, tt := range []struct {
		name, head, body string
		hidden           bool // whether the second request is answered; only in the control
	}{
		{"control: one length, and another request", "Content-Length: 2\r\n", "{}" + second, true},
		{"both, and the chunks end first", "Content-Length: 79\r\n" + chunked, "0\r\n\r\n" + second, false},
		{"both, the other way round", chunked + "Content-Length: 79\r\n", "0\r\n\r\n" + second, false},
		{"both, and the length ends first", "Content-Length: 3\r\n" + chunked, "2\r\n{}\r\n0\r\n\r\n" + second, false},
		{"chunks that are spelled in another way", "Content-Length: 79\r\nTransfer-encoding: CHUNKED\r\n", "0\r\n\r\n" + second, false},
		{"chunks behind a space", "Content-Length: 79\r\nTransfer-Encoding : chunked\r\n", "0\r\n\r\n" + second, false},
		{"chunks behind a line feed alone", "Content-Length: 79\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n" + second, false},
		{"chunks in a folded line", "Content-Length: 79\r\nTransfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n" + second, false},
		{"another coding", "Content-Length: 79\r\nTransfer-Encoding: xchunked\r\n", "0\r\n\r\n" + second, false},
		{"two codings", "Content-Length: 79\r\nTransfer-Encoding: identity, chunked\r\n", "0\r\n\r\n" + second, false},
		{"two lines of codings", "Content-Length: 79\r\n" + chunked + "Transfer-Encoding: identity\r\n", "0\r\n\r\n" + second, false},
		{"two lengths", "Content-Length: 0\r\nContent-Length: 74\r\n", second, false},
		{"two lengths in a line", "Content-Length: 0, 74\r\n", second, false},
		{"a length with a sign", "Content-Length: +0\r\n", second, false},
		{"chunks without a length", chunked, "0\r\n\r\n" + second, false},
		{"line feeds alone between the chunks", chunked, "2\n{}\n0\n\n" + second, false},
		{"a line feed alone behind the size of a chunk", chunked, "0\n\r\n" + second, false},
		{"a line feed alone in the extension of a chunk", chunked, "2;a\n{}\r\n0\r\n\r\n" + second, false},
		{"a chunk that is longer than it says", chunked, "2\r\n{}}}\r\n0\r\n\r\n" + second, false},
		{"the size of a chunk with a sign", chunked, "+0\r\n\r\n" + second, false},
		{"the size of a chunk as in a program", chunked, "0x0\r\n\r\n" + second, false},
		{"a length in a trailer", chunked, "0\r\nContent-Length: 79\r\n\r\n" + second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := start(t, Config{})
			conn, err := net.Dial("tcp", f.listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\n"+tt.head+"\r\n"+tt.body); err != nil {
				t.Fatal(err)
			}
			if tt.hidden {
				half, ok := conn.(*net.TCPConn)
				if !ok {
					t.Fatalf("the connection is a %T", conn)
				}
				if err := half.CloseWrite(); err != nil { // otherwise the connection of the control would stay open
					t.Fatal(err)
				}
			}
			all, err := io.ReadAll(conn)
			if err != nil {
				t.Errorf("the connection was not closed: %v", err)
			}
			if got := strings.Count(string(all), "HTTP/1.1 "); got == 0 || (got > 1) != tt.hidden {
				t.Errorf("%d answers:\n%s", got, all)
			}
		})
	}
}
