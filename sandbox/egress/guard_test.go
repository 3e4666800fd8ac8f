package egress

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// saying starts a server that answers each request with a head and a body, in which SECRET
// stands for the Authorization that the request brought. It returns the port.
func saying(t testing.TB, answer func(r *http.Request) (head, body string)) uint16 {
	return server(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			value := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			head, body := answer(r)
			head, body = strings.ReplaceAll(head, "SECRET", value), strings.ReplaceAll(body, "SECRET", value)
			if strings.Contains(lower(head), "gzip") {
				var b bytes.Buffer
				z := gzip.NewWriter(&b)
				io.WriteString(z, body)
				z.Close()
				body = b.String()
			}
			fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
		}
	})
}

// TestSecretInParts sends requests that ask the server to repeat a secret in parts, in
// codings, in other character sets and by its hash.
func TestSecretInParts(t *testing.T) {
	port := saying(t, func(r *http.Request) (string, string) {
		var asked []string
		for name := range r.Header {
			asked = append(asked, name)
		}
		return "200 OK", strings.Join(asked, " ")
	})
	s := serve(t, port, withToken)
	c := s.site(t)
	in := bufio.NewReader(c)
	for _, path := range []string{"/api/x", "/public"} {
		for _, header := range []string{
			"Range: bytes=0-7", "range: bytes=-1", "If-Range: \"x\"", "Request-Range: bytes=0-7", "RANGE: bytes=1-", "A-IM: vcdiff", "TE: gzip", "Accept-Charset: utf-16",
			"Want-Digest: sha-256", "Want-Content-Digest: sha-256=1", "Want-Repr-Digest: sha-256=1", "Sec-WebSocket-Extensions: permessage-deflate", "If_Range: x",
		} {
			io.WriteString(c, s.asked("GET "+path, header))
			name, _, _ := strings.Cut(header, ":")
			if resp, got := readAnswer(t, in, "GET"); resp.StatusCode != 200 || strings.Contains(lower(got), lower(name)) {
				t.Errorf("%s: %s %q; want it left out", header, resp.Status, got)
			}
		}
	}
}

// TestSecretAnswerIsRefused checks that answers in which a secret could not be found are
// refused.
func TestSecretAnswerIsRefused(t *testing.T) {
	for _, head := range []string{
		"206 Partial Content\r\nContent-Range: bytes 0-7/100", "206 Partial Content", "200 OK\r\nContent-Range: bytes 0-7/100", "226 IM Used",
		"200 OK\r\nContent-Type: multipart/byteranges; boundary=x", "200 OK\r\nContent-Type: Multipart/ByteRanges;;;",
		"200 OK\r\nContent-Encoding: br", "200 OK\r\nContent-Encoding: utf-8", "200 OK\r\nContent-Encoding: identity\r\nContent-Encoding: zstd",
		"200 OK\r\nContent-Encoding: deflate, identity", "200 OK\r\nContent-Encoding: none", "404 Not Found\r\nContent-Encoding: x",
	} {
		s := serve(t, saying(t, func(*http.Request) (string, string) { return head, "you sent SECRET" }), withToken)
		for _, path := range []string{"/api/x", "/public"} {
			c := s.site(t)
			io.WriteString(c, s.asked("GET "+path))
			resp, body := readAnswer(t, bufio.NewReader(c), "GET")
			if resp.StatusCode != 502 || !strings.HasPrefix(body, "BLOCKED by the sandbox: GET ") || !strings.Contains(body, "the server, which has received this one") {
				t.Errorf("%q at %s: got %s %q", head, path, resp.Status, body)
			}
		}
		s.await(t, func(r Record) bool { return !r.Allowed && r.Rule == "secrets" })
		s.await(t, func(r Record) bool { return r.Allowed && r.Secret == "github" })
	}
	// If no secret may come back, the client may use parts and codings.
	s := serve(t, saying(t, func(*http.Request) (string, string) { return "206 Partial Content\r\nContent-Encoding: br", "x" }), nil)
	c := s.site(t)
	io.WriteString(c, s.asked("GET /api/x"))
	if resp, body := readAnswer(t, bufio.NewReader(c), "GET"); resp.StatusCode != 206 || body != "x" || resp.Header.Get("Content-Encoding") != "br" {
		t.Errorf("without secrets: got %s %q", resp.Status, body)
	}
}

// TestSecretIsMasked checks that a secret is overwritten in all places and forms in which
// it is found.
func TestSecretIsMasked(t *testing.T) {
	stars := strings.Repeat("*", len(token))
	for _, row := range []struct{ head, body, want string }{
		{"200 OK\r\nContent-Encoding: identity, identity", "a SECRET b", "a " + stars + " b"},
		{"200 OK\r\nContent-Encoding: , identity", "SECRET", stars},
		{"200 OK\r\nContent-Encoding: gzip", "a SECRET b", "a " + stars + " b"},
		{"200 OK\r\nContent-Encoding: identity\r\nContent-Encoding: X-GZip", "SECRET", stars},
		{"200 SECRET\r\nLocation: /?a=SECRET\r\nSet-Cookie: a=SECRET", "x", "x"},
		{"200 OK", `{"a": "` + strings.ReplaceAll(token, "/", `\/`) + `"}`, `{"a": "` + stars + `*"}`},
		{"200 OK", strings.ReplaceAll(token, "+", `\u002b`), stars + "*****"},
		{"200 OK", strings.ReplaceAll(token, "=", "&#x3d;"), stars + "**********"},
		{"200 OK", "<b>" + strings.ReplaceAll(token, "/", "&amp;#47;") + "</b>", "<b>" + stars + "********</b>"},
		{"200 OK", strings.ToUpper(token), stars},
		{"200 OK", "\xfe\xff" + strings.Join(strings.Split(token, ""), "\x00"), "\xfe\xff" + stars + strings.Repeat("*", len(token)-1)},
	} {
		s := serve(t, saying(t, func(*http.Request) (string, string) { return row.head, row.body }), withToken)
		c := s.site(t)
		io.WriteString(c, s.asked("GET /api/x"))
		resp, body := readAnswer(t, bufio.NewReader(c), "GET")
		if body != row.want || strings.Contains(fmt.Sprintf("%+v", resp), token) {
			t.Errorf("%q with %q: got %+v, %q; want %q", row.head, row.body, resp, body, row.want)
		}
	}
}

// TestSecretFromElsewhere checks that a secret is overwritten that this door has not sent
// yet: the server has received it from another box.
func TestSecretFromElsewhere(t *testing.T) {
	s := serve(t, saying(t, func(*http.Request) (string, string) { return "200 OK", "a " + token + " b" }), withToken)
	c := s.site(t)
	io.WriteString(c, s.asked("GET /log"))
	_, body := readAnswer(t, bufio.NewReader(c), "GET")
	if want := "a " + strings.Repeat("*", len(token)) + " b"; body != want {
		t.Errorf("got %q, want %q", body, want)
	}
}

// TestSecretInNameOfHeader checks that a value is overwritten in the name of a header.
func TestSecretInNameOfHeader(t *testing.T) {
	m := newMasker([]mask{newMask("a", "plain-Token-value")})
	if got := m.blot("X-Plain-Token-Value"); got != "X-*****************" {
		t.Errorf("got %q", got)
	}
}

// TestSecretInWebsocket checks that a secret is overwritten in frames that split it, and in
// the control frame between them, which contains all of it.
func TestSecretInWebsocket(t *testing.T) {
	frames := "\x01\x03you" + "\x00\x06" + token[:6] + "\x89\x14" + token + "\x80\x0f" + token[6:] + "." + "\x81\x02hi"
	port := server(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, accepted+frames)
		}
	})
	s := serve(t, port, withToken)
	c := s.site(t)
	io.WriteString(c, s.asked("GET /api/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: k"))
	in := bufio.NewReader(c)
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 101 {
		t.Fatalf("got %+v, %v", resp, err)
	}
	said, pings := "", ""
	for {
		head := make([]byte, 2)
		if _, err := io.ReadFull(in, head); err != nil {
			break
		}
		text := make([]byte, head[1])
		if _, err := io.ReadFull(in, text); err != nil {
			t.Fatal(err)
		}
		if head[0]&frameControl != 0 {
			pings += string(text)
			continue
		}
		if said += string(text); head[0]&frameFinal != 0 {
			said += "|"
		}
	}
	stars := strings.Repeat("*", len(token))
	if said != "you"+stars+".|hi|" || pings != stars {
		t.Errorf("got %q and %q", said, pings)
	}
}

// TestSecretInMalformedAnswer has a server that sends the secret in bytes that are not an
// HTTP answer. Neither the answer nor the record may show it.
func TestSecretInMalformedAnswer(t *testing.T) {
	for _, head := range []string{"SECRET", "200 OK\r\nContent-Length: SECRET", "200 OK\r\nSECRET", "200 OK\r\nTransfer-Encoding: SECRET"} {
		s := serve(t, saying(t, func(*http.Request) (string, string) { return head, "" }), withToken)
		c := s.site(t)
		io.WriteString(c, s.asked("GET /api/x"))
		got, _ := io.ReadAll(c)
		r := s.await(t, func(r Record) bool { return strings.Contains(r.Reason, "read the answer") })
		if all := string(got) + fmt.Sprintf("%+v", r); strings.Contains(all, token[:8]) {
			t.Errorf("%q: it shows in %q", head, all)
		}
	}
}
