package egress

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"belljar.dev/policies"
)

const token = "s3cr3t/Token+Value=="

// withToken changes a configuration so that the token is added to GET requests of the site
// below /api.
func withToken(cfg *Config) {
	cfg.Egress.Secrets = []policies.SecretHeader{{
		Secret: "github", Host: site, Methods: []string{"GET"}, Paths: []string{"/api/**"}, Header: "Authorization", Value: "Bearer ${secret:github}",
	}}
	cfg.Secret = func(_ context.Context, name string) (string, error) {
		if name != "github" {
			return "", errors.New("asked for " + name)
		}
		return token + "\n", nil
	}
}

// A secret for GET requests is not added to the GET of a websocket, which sends any data
// afterwards.
func TestNoWebsocketGetsASecretForReads(t *testing.T) {
	for _, tt := range []struct {
		methods []string
		want    string
	}{{[]string{"GET"}, ""}, {[]string{"GET", "WEBSOCKET"}, "Bearer " + token}, {nil, "Bearer " + token}} {
		port, got := echoing(t)
		s := serve(t, port, func(cfg *Config) {
			withToken(cfg)
			cfg.Egress.Secrets[0].Methods = tt.methods
		})
		c := s.site(t)
		io.WriteString(c, s.asked("GET /api/x", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: k"))
		readAnswer(t, bufio.NewReader(c), "GET")
		if all := got(); len(all) != 1 || !strings.HasPrefix(all[0], "GET /api/x "+tt.want+" ") {
			t.Errorf("methods %q: the server got %q", tt.methods, all)
		}
	}
}

// echoing starts a server that answers with the Authorization that it received, in a form
// that the path selects. It returns the port, and a function that returns the requests so
// far.
func echoing(t testing.TB) (uint16, func() []string) {
	var mu sync.Mutex
	var got []string
	w := server(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			auth := strings.Join(r.Header.Values("Authorization"), "|")
			mu.Lock()
			got = append(got, r.Method+" "+r.URL.Path+" "+auth+" "+r.Header.Get("Accept-Encoding"))
			mu.Unlock()
			switch r.URL.Path {
			case "/api/length":
				body := "you sent " + auth + "."
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Auth: %s\r\nContent-Length: %d\r\n\r\n%s", auth, len(body), body)
			case "/api/chunked": // split in the middle of the value
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
				for _, part := range []string{"<", auth[:12], auth[12:15], auth[15:], ">"} {
					fmt.Fprintf(c, "%x\r\n%s\r\n", len(part), part)
				}
				fmt.Fprintf(c, "0\r\n\r\n")
			case "/api/base64":
				body := base64.StdEncoding.EncodeToString([]byte("Basic x:" + strings.TrimPrefix(auth, "Bearer ") + "!"))
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			default:
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(auth), auth)
			}
		}
	})
	return w, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), got...)
	}
}

func TestSecretIsAddedAndDoesNotComeBack(t *testing.T) {
	port, got := echoing(t)
	var logged bytes.Buffer
	s := serve(t, port, func(cfg *Config) {
		withToken(cfg)
		cfg.Log = slog.New(slog.NewTextHandler(&logged, nil))
	})
	c := s.site(t)
	in := bufio.NewReader(c)
	stars := strings.Repeat("*", len(token))
	for _, row := range []struct{ send, saw, body string }{
		{s.asked("GET /api/length", "Authorization: mine", "authorization: too", "Accept-Encoding: gzip"), "GET /api/length Bearer " + token + " identity", "you sent Bearer " + stars + "."},
		{s.asked("GET /api/chunked"), "GET /api/chunked Bearer " + token + " identity", "<Bearer " + stars + ">"},
		{s.asked("GET /public", "Authorization: mine", "Accept-Encoding: gzip"), "GET /public mine identity", "mine"},
		{s.asked("POST /api/x", "Authorization: mine", "Content-Length: 0"), "POST /api/x mine identity", "mine"},
		{s.asked("GET /api/%2e%2e/public", "Authorization: mine"), "GET /api/../public mine identity", "mine"},
		{s.asked("TRACE /api/x"), "TRACE /api/x  identity", ""},
	} {
		io.WriteString(c, row.send)
		method, _, _ := strings.Cut(row.send, " ")
		resp, body := readAnswer(t, in, method)
		all := got()
		if saw := all[len(all)-1]; saw != row.saw || body != row.body {
			t.Errorf("%q: the server saw %q and answered %q; want %q, %q", row.send, saw, body, row.saw, row.body)
		}
		if strings.Contains(fmt.Sprint(resp.Header), token) {
			t.Errorf("%q: the value came back in %v", row.send, resp.Header)
		}
	}
	io.WriteString(c, s.asked("GET /api/base64"))
	_, body := readAnswer(t, in, "GET")
	if plain, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(body, "*", "A")); err != nil || strings.Contains(string(plain), token[3:len(token)-3]) {
		t.Errorf("in base64 the value came back: %q, %v", plain, err)
	}
	c.Close()
	if r := s.await(t, func(r Record) bool { return r.Path == "/api/length" }); r.Secret != "github" {
		t.Errorf("record: got %+v; want the secret's name", r)
	}
	s.d.Close()
	if all := fmt.Sprintf("%+v", s.records.list()) + logged.String(); strings.Contains(all, token) {
		t.Errorf("the value is in %s", all)
	}
}

// TestSecretStaysHome has requests that must not get the secret.
func TestSecretStaysHome(t *testing.T) {
	port, got := echoing(t)
	for name, change := range map[string]func(*policies.Egress){
		"a rule about every host": func(e *policies.Egress) { e.Allow[0].Host, e.Private = "*", nil },
		"another host":            func(e *policies.Egress) { e.Secrets[0].Host = "other.example" },
		"another port":            func(e *policies.Egress) { e.Allow[0].Ports = []uint16{443}; e.Private[0].Port = 0 },
	} {
		e := private(allowing(at(site, port)), at(site, port))
		cfg := Config{Egress: e}
		withToken(&cfg)
		change(e)
		d := open(t, cfg)
		f := flow{d: d, snap: d.current.Load(), rec: Record{Host: host(t, site), Port: port}}
		var a added
		err := f.addSecrets(t.Context(), &a, "http", []string{"GET"}, "/api/x")
		allowed := name == "another port" // Private names the host
		if err != nil || len(a.fields) > 0 != allowed {
			t.Errorf("%s: got %+v, %v", name, a, err)
		}
	}
	if len(got()) > 0 {
		t.Errorf("sent %q", got())
	}
}

func TestSecretThatCannotBeUsedRefuses(t *testing.T) {
	port, got := echoing(t)
	for name, fetch := range map[string]func(context.Context, string) (string, error){
		"none":      nil,
		"error":     func(context.Context, string) (string, error) { return "", errors.New("the file holds " + token) },
		"empty":     func(context.Context, string) (string, error) { return "\n", nil },
		"CR LF":     func(context.Context, string) (string, error) { return token + "\r\nX: y", nil },
		"LF":        func(context.Context, string) (string, error) { return token + "\nX: y", nil },
		"NUL":       func(context.Context, string) (string, error) { return token + "\x00", nil },
		"very long": func(context.Context, string) (string, error) { return strings.Repeat(token, 1000), nil },
	} {
		s := serve(t, port, func(cfg *Config) { withToken(cfg); cfg.Secret = fetch })
		c := s.site(t)
		io.WriteString(c, s.asked("GET /api/x"))
		resp, body := readAnswer(t, bufio.NewReader(c), "GET")
		if resp.StatusCode != 502 || !strings.Contains(body, "secret github") || strings.Contains(body, token) {
			t.Errorf("%s: got %s %q; want 502 and the name", name, resp.Status, body)
		}
		r := s.await(t, func(r Record) bool { return !r.Allowed })
		if strings.Contains(fmt.Sprintf("%+v", r), token) {
			t.Errorf("%s: recorded %+v", name, r)
		}
	}
	if len(got()) > 0 {
		t.Errorf("sent %q", got())
	}
}

func TestSecretIsFetchedOnceInABurst(t *testing.T) {
	var fetched atomic.Int64
	v := newVault(func(_ context.Context, name string) (string, error) {
		fetched.Add(1)
		return "value of " + name, nil
	})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if got, err := v.value(t.Context(), "a"); err != nil || got != "value of a" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	all.Wait()
	if n := fetched.Load(); n != 1 {
		t.Errorf("fetched %d times; want once", n)
	}
	for i := range 3 * maxMasks {
		v.value(t.Context(), fmt.Sprint("name", i))
	}
	if len(v.values) > maxValues || len(v.masks) > maxMasks {
		t.Errorf("%d values and %d masks are kept", len(v.values), len(v.masks))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v.slot <- struct{}{}
	if _, err := v.value(ctx, "never"); err == nil {
		t.Error("a cancelled wait gave a value")
	}
}

// A websocket that ends within a frame has not ended well.
func TestWebsocketThatEndsInAFrame(t *testing.T) {
	for text, want := range map[string]error{
		"": nil, "\x81\x02hi": nil, "\x89\x02hi": nil,
		"\x81": io.ErrUnexpectedEOF, "\x81\x7e": io.ErrUnexpectedEOF, "\x81\x7e\x01": io.ErrUnexpectedEOF, "\x81\x02h": io.ErrUnexpectedEOF,
		"\x01\x01h": io.ErrUnexpectedEOF, "\x89\x02": io.ErrUnexpectedEOF, "\x89\x02h": io.ErrUnexpectedEOF,
	} {
		s := messages{in: bufio.NewReader(strings.NewReader(text)), out: io.Discard, m: newMasker([]mask{newMask("github", token)})}
		if err := s.relay(); !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", text, err, want)
		}
	}
}

// An answer that is refused is not read to its end: it may have none.
func TestRefusedAnswerIsNotRead(t *testing.T) {
	port := server(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		_, err := io.WriteString(c, "HTTP/1.1 206 Partial Content\r\nContent-Length: 1000000000000\r\n\r\n")
		for part := make([]byte, 64<<10); err == nil; {
			_, err = c.Write(part)
		}
	})
	s := serve(t, port, withToken)
	c := s.site(t)
	io.WriteString(c, s.asked("GET /api/x"))
	if resp, body := readAnswer(t, bufio.NewReader(c), "GET"); resp.StatusCode != 502 || !strings.Contains(body, "part of a text") {
		t.Errorf("got %s %q; want 502", resp.Status, body)
	}
	c.Close()
	s.await(t, func(r Record) bool { return r.Proto == "http" && r.Method == "" })
}

// A secret that is another one each time does not make the door forget the value of a
// secret that stays the same.
func TestMasksOfSecretsThatChange(t *testing.T) {
	v := newVault(nil)
	masked := func(text string) bool { return v.masker().hide(text) != text }
	v.keep("constant", token)
	v.keep("returning", "returning-value")
	for i := range 2 * maxMasks {
		v.keep("changing", fmt.Sprintf("changing-%06d", i))
		if i == maxMasks/2 {
			v.keep("returning", "returning-other")
			v.keep("returning", "returning-value")
		}
	}
	if len(v.masks) > maxMasks {
		t.Errorf("got %d values, want at most %d", len(v.masks), maxMasks)
	}
	for _, value := range []string{token, "returning-value", fmt.Sprintf("changing-%06d", 2*maxMasks-1)} {
		if !masked(value) {
			t.Errorf("the present value %q is not looked for", value)
		}
	}
	if masked("changing-000000") {
		t.Error("the oldest value is still looked for")
	}
	// If each value is that of another secret, the oldest one is dropped. Reading it again
	// brings it back.
	for i := range maxMasks {
		v.keep(fmt.Sprint(i), fmt.Sprintf("value-of-%06d", i))
	}
	if masked(token) {
		t.Error("more values are looked for than fit")
	}
	v.keep("constant", token)
	if !masked(token) {
		t.Error("a value that was read again is not looked for")
	}
}

func TestRedact(t *testing.T) {
	d := open(t, Config{Egress: allowing(site), Secret: func(_ context.Context, name string) (string, error) {
		return map[string]string{"github": token, "short": "abc"}[name], nil
	}})
	for _, name := range []string{"github", "short"} {
		if _, err := d.vault.value(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	for in, want := range map[string]string{
		"nothing abc":                          "nothing abc",
		"a " + token + " b " + token:           "a [secret github] b [secret github]",
		"q=" + url.QueryEscape(token):          "q=[secret github]",
		"p/" + url.PathEscape(token) + "/":     "p/[secret github]/",
		token[:len(token)-1]:                   token[:len(token)-1],
		strings.Repeat(token[:4], 3) + token:   strings.Repeat(token[:4], 3) + "[secret github]",
		fmt.Sprintf("%q", "line\n"+token+"\n"): `"line\n[secret github]\n"`,
	} {
		if got := d.Redact(in); got != want {
			t.Errorf("Redact(%q): got %q; want %q", in, got, want)
		}
	}
	for before := range 7 {
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
			in := e.EncodeToString([]byte(strings.Repeat("x", before) + token + "yy"))
			if got := d.Redact(in); !strings.Contains(got, "[secret github]") {
				t.Errorf("after %d bytes: Redact(%q) = %q; the value shows", before, in, got)
			}
		}
	}
}

func TestMaskedReadsAsItComes(t *testing.T) {
	m := newMasker([]mask{newMask("github", token), newMask("other", "0th3r-value")})
	text := strings.Repeat("x", 100) + token + "s3cr3t/" + token + token + "0th3r-value s3cr3t/Token+Value="
	want := strings.NewReplacer(token, strings.Repeat("*", len(token)), "0th3r-value", strings.Repeat("*", 11)).Replace(text)
	for name, from := range map[string]io.Reader{
		"at once":      strings.NewReader(text),
		"byte by byte": iotest.OneByteReader(strings.NewReader(text)),
		"in halves":    iotest.HalfReader(strings.NewReader(text)),
		"end at once":  iotest.DataErrReader(strings.NewReader(text)),
	} {
		got, err := io.ReadAll(newMasked(from, m))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, want)
		}
	}
	// Text that is not the beginning of a value is not held back.
	r, w := io.Pipe()
	defer w.Close()
	go w.Write([]byte("data: 1\n"))
	buf := make([]byte, 100)
	if n, err := newMasked(r, m).Read(buf); err != nil || string(buf[:n]) != "data: 1\n" {
		t.Errorf("got %q, %v", buf[:n], err)
	}
}
