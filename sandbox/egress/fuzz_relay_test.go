package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// recorded is a connection that keeps what a client writes. Every read returns io.EOF.
type recorded struct {
	net.Conn
	said bytes.Buffer
}

func (r *recorded) Read([]byte) (int, error)         { return 0, io.EOF }
func (r *recorded) Write(p []byte) (int, error)      { return r.said.Write(p) }
func (r *recorded) Close() error                     { return nil }
func (r *recorded) SetDeadline(time.Time) error      { return nil }
func (r *recorded) SetReadDeadline(time.Time) error  { return nil }
func (r *recorded) SetWriteDeadline(time.Time) error { return nil }

// helloOf returns the ClientHello of crypto/tls.
func helloOf(name string, change func(*tls.Config)) []byte {
	c := &recorded{}
	cfg := &tls.Config{ServerName: name, InsecureSkipVerify: name == ""}
	if change != nil {
		change(cfg)
	}
	tls.Client(c, cfg).HandshakeContext(context.Background()) // fails, because no server answers
	return c.said.Bytes()
}

// otherHello returns the server name that crypto/tls, as a server, reads in raw.
func otherHello(raw []byte) (name string, ok bool) {
	in := struct {
		io.Reader
		*recorded
	}{bytes.NewReader(raw), &recorded{}}
	conn := struct{ net.Conn }{readFrom{in.recorded, in.Reader}}
	tls.Server(conn, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, ok = h.ServerName, true
		return nil, errors.New("seen")
	}}).HandshakeContext(context.Background())
	return name, ok
}

type readFrom struct {
	net.Conn
	in io.Reader
}

func (r readFrom) Read(p []byte) (int, error) { return r.in.Read(p) }

// inRecords splits a hello of one record into records of n bytes.
func inRecords(raw []byte, n int) []byte {
	var all []byte
	for rest := raw[recordHeader:]; len(rest) > 0; rest = rest[min(n, len(rest)):] {
		size := min(n, len(rest))
		all = append(all, raw[0], raw[1], raw[2], byte(size>>8), byte(size))
		all = append(all, rest[:size]...)
	}
	return all
}

func TestHelloIsRead(t *testing.T) {
	plain := helloOf(site, nil)
	old := helloOf(site, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 })
	for name, row := range map[string]struct {
		raw  []byte
		want string // the name, or a part of the error's text
		ok   bool
	}{
		"TLS 1.3":           {plain, site, true},
		"TLS 1.2":           {old, site, true},
		"no name":           {helloOf("", nil), "", true},
		"records of 1 byte": {inRecords(plain[:min(len(plain), recordHeader+2000)], 1), site, true},
		"records of 100":    {inRecords(plain, 100), site, true},
		"an alert before":   {append([]byte{21, 3, 1, 0, 2, 1, 0}, plain...), "record of type 21", false},
		"an empty record":   {append([]byte{22, 3, 1, 0, 0}, plain...), "0 bytes", false},
		"SSL 2":             {append([]byte{22, 2, 0}, plain[3:]...), "version 2.0", false},
		"a ServerHello":     {append(append([]byte{}, plain[:recordHeader]...), append([]byte{2}, plain[recordHeader+1:]...)...), "type 2", false},
		"two hellos":        {append(append([]byte{}, plain...), plain...), "another message", false},
		"a huge message":    {[]byte{22, 3, 1, 0, 4, 1, 1, 0, 0}, "at most", false},
		"a huge record":     {[]byte{22, 3, 1, 0xff, 0xff}, "65535 bytes", false},
		"two names":         {withExtension(old, 0, nameList("a.example")), "extension 0 twice", false},
	} {
		h, err := parseHello(row.raw)
		switch {
		case row.ok && (err != nil || h.name != row.want || h.named != (row.want != "")):
			t.Errorf("%s: got %+v, %v; want %q", name, h, err, row.want)
		case !row.ok && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: got %+v, %v; want %q", name, h, err, row.want)
		}
	}
	for n := range plain {
		if h, err := parseHello(plain[:n]); !errors.Is(err, errMore) {
			t.Fatalf("the first %d bytes: got %+v, %v; want more", n, h, err)
		}
	}
	noName := helloOf("", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 })
	for name, list := range map[string][]byte{
		"empty":          {},
		"an empty list":  {0, 0},
		"an empty name":  {0, 3, 0, 0, 0},
		"two names":      append([]byte{0, 8}, 0, 0, 1, 'a', 0, 0, 1, 'b'),
		"another type":   {0, 4, 1, 0, 1, 'a'},
		"more behind":    {0, 4, 0, 0, 1, 'a', 0},
		"longer than it": {0, 9, 0, 0, 1, 'a'},
	} {
		if h, err := parseHello(withExtension(noName, 0, list)); err == nil {
			t.Errorf("a name list with %s: got %+v; want an error", name, h)
		}
	}
	for name, ok := range map[string]bool{site: true, "SITE.EXAMPLE": true, "site.example.": true, "site.example..": false, "site.example\x00": false, "evil.example": false, "127.0.0.1": false} {
		h, err := parseHello(withExtension(noName, 0, nameList(name)))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.wants(host(t, site)); (err == nil) != ok {
			t.Errorf("%q: got %v", name, err)
		}
	}
	// The extension encrypted_client_hello, as grease or not, is accepted if the outer name
	// is right.
	if h, err := parseHello(withExtension(old, 0xfe0d, make([]byte, 200))); err != nil || h.wants(host(t, site)) != nil {
		t.Errorf("with ECH: got %+v, %v", h, err)
	}
}

// nameList returns the content of a server_name extension.
func nameList(name string) []byte {
	n := len(name)
	return append([]byte{byte((n + 3) >> 8), byte(n + 3), 0, byte(n >> 8), byte(n)}, name...)
}

// withExtension returns a hello of one record with a further extension.
func withExtension(raw []byte, number uint16, data []byte) []byte {
	message := append([]byte{}, raw[recordHeader:]...)
	c := cursor{rest: message}
	c.skip(4 + 2 + 32)
	c.vector(1)
	c.vector(2)
	c.vector(1)
	at := len(message) - len(c.rest)
	grow := func(i, size, by int) {
		n := 0
		for _, b := range message[i : i+size] {
			n = n<<8 | int(b)
		}
		n += by
		for j := size - 1; j >= 0; j-- {
			message[i+j] = byte(n)
			n >>= 8
		}
	}
	grow(at, 2, 4+len(data))
	grow(1, 3, 4+len(data))
	message = append(message, byte(number>>8), byte(number), byte(len(data)>>8), byte(len(data)))
	message = append(message, data...)
	return append([]byte{raw[0], raw[1], raw[2], byte(len(message) >> 8), byte(len(message))}, message...)
}

// FuzzHello compares the parser with crypto/tls. If crypto/tls would serve a hello by a
// name, this parser must read the same name or refuse the hello.
func FuzzHello(f *testing.F) {
	plain := helloOf(site, nil)
	f.Add(plain)
	f.Add(inRecords(plain, 64))
	f.Add(helloOf("", nil))
	f.Add(withExtension(helloOf(site, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), 0, nameList("evil.example")))
	f.Add(append([]byte{21, 3, 1, 0, 2, 1, 0}, plain...))
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := parseHello(raw)
		other, ok := otherHello(raw)
		if ok && openingOf(raw) != openingTLS {
			t.Errorf("crypto/tls reads a hello in %x, which is taken for %d", raw, openingOf(raw))
		}
		if err != nil || !ok {
			return
		}
		if h.name != other {
			t.Errorf("read the name %q, and crypto/tls reads %q", h.name, other)
		}
	})
}

// FuzzOpening checks that a text in which net/http reads a request is not taken for TLS or
// an opaque protocol, however slowly it arrives.
func FuzzOpening(f *testing.F) {
	for _, row := range smuggling("site.example:80") {
		f.Add([]byte(row.send[:min(len(row.send), 400)]))
	}
	f.Add([]byte("SSH-2.0-x\r\n"))
	f.Add([]byte("0032git-upload-pack /p\x00host=h\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw))); err != nil {
			return
		}
		for n := range min(len(raw), 2000) {
			switch kind := openingOf(raw[:n+1]); kind {
			case openingOpaque, openingTLS:
				t.Fatalf("the first %d bytes of %q are taken for %d", n+1, raw, kind)
			case openingHTTP, openingHTTP2:
				return
			case openingUnknown:
			}
		}
	})
}

// FuzzRequestHead compares the reader of heads with net/http. If both read a head, they
// must read the same, also in the head that is sent on.
func FuzzRequestHead(f *testing.F) {
	for _, row := range smuggling("site.example:80") {
		f.Add([]byte(row.send[:min(len(row.send), 400)]))
	}
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		end := bytes.Index(raw, []byte("\r\n\r\n"))
		if end < 0 {
			return
		}
		raw = raw[:end+4]
		h, err := parseHead(raw)
		if err != nil || h.method == "CONNECT" {
			return
		}
		if theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw))); err == nil {
			same(t, h, theirs, raw)
		}
		p, err := h.place("http")
		if err != nil {
			return
		}
		fields, err := h.handOn()
		if err != nil {
			return
		}
		q := request{head: h, place: p}
		out := q.write("http", fields, h.websocket())
		if n := bytes.Count(out, []byte("\r\n\r\n")); n != 1 || !bytes.HasSuffix(out, []byte("\r\n\r\n")) {
			t.Fatalf("%q is sent as %q", raw, out)
		}
		again, err := parseHead(out)
		if err != nil {
			t.Fatalf("%q is sent as %q: %v", raw, out, err)
		}
		at, err := again.place("http")
		if err != nil || at != p || again.method != h.method || again.length != h.length || len(again.fields) > len(h.fields)+2 {
			t.Fatalf("%q is sent as %q, which is read as %+v", raw, out, again)
		}
		if theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(out))); err == nil {
			same(t, again, theirs, out)
		}
	})
}

// same fails the test unless two readers have read the same request.
func same(t *testing.T, h head, r *http.Request, raw []byte) {
	t.Helper()
	length := r.ContentLength
	if len(r.TransferEncoding) > 0 {
		length = -1
	}
	// net/http takes the host from a whole URL; place checks that both hosts are the same.
	whole := !strings.HasPrefix(h.target, "/")
	if r.Method != h.method || r.RequestURI != h.target || length != h.length || r.Host != h.host && !whole {
		t.Fatalf("%q: read %+v; net/http reads %s %s, host %s, length %d", raw, h, r.Method, r.RequestURI, r.Host, length)
	}
}

// FuzzConnect checks that the target of a CONNECT is the same host and port for every
// reader.
func FuzzConnect(f *testing.F) {
	for _, s := range []string{"site.example:443", "[::1]:443", "a@b:80", "a:080", "::1:80", "1.2.3.4:80", "a..b:1", "[::ffff:1.2.3.4]:1", "2130706433:80", "A.:65535"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, port, err := parseAuthority(s, 0)
		if err != nil {
			return
		}
		again, samePort, err := parseAuthority(hostPort(h, port, ""), 0)
		if err != nil || again != h || samePort != port {
			t.Fatalf("%q is %v:%d, which is read as %v:%d, %v", s, h, port, again, samePort, err)
		}
		u, err := url.Parse("http://" + s)
		if err != nil {
			return
		}
		if theirs, err := parsePort(u.Port()); err != nil || theirs != port || u.User != nil || u.Path != "" {
			t.Fatalf("%q: read %v:%d; net/url reads %+v", s, h, port, u)
		}
		name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
		if h.Name() != "" && h.Name() != name {
			t.Fatalf("%q: read %v; net/url reads %q", s, h, name)
		}
	})
}

// FuzzMasked checks that no value gets through, however the text is cut.
func FuzzMasked(f *testing.F) {
	f.Add("a"+token+"b", uint8(3))
	f.Add(token+token, uint8(1))
	f.Add("s3cr3t/s3cr3t/Token+Value==", uint8(2))
	f.Fuzz(func(t *testing.T, text string, every uint8) {
		var from io.Reader = strings.NewReader(text)
		if every == 1 {
			from = iotest.OneByteReader(from)
		} else if every > 1 {
			from = &steps{text, int(every)}
		}
		got, err := io.ReadAll(newMasked(from, newMasker([]mask{newMask("a", token)})))
		if err != nil || len(got) != len(text) || strings.Contains(string(got), token) {
			t.Fatalf("%q in steps of %d: got %q, %v", text, every, got, err)
		}
	})
}

// steps is a reader that returns a text in pieces of the same length.
type steps struct {
	text string
	n    int
}

func (s *steps) Read(p []byte) (int, error) {
	if s.text == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.n)], s.text)
	s.text = s.text[n:]
	return n, nil
}
