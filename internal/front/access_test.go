package front

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"belljar.dev/internal/testenv"
)

func TestSender(t *testing.T) {
	proxies, err := parsePrefixes([]string{"10.0.0.0/8", "fd00::/8", "192.0.2.7"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, peer string
		header     http.Header
		want       string
	}{
		{"no proxy", "198.51.100.1:5", nil, "198.51.100.1"},
		{"header of a stranger", "198.51.100.1:5", http.Header{"X-Forwarded-For": {"127.0.0.1"}}, "198.51.100.1"},
		{"Forwarded of a stranger", "198.51.100.1:5", http.Header{"Forwarded": {"for=127.0.0.1"}}, "198.51.100.1"},
		{"one proxy", "10.0.0.1:5", http.Header{"X-Forwarded-For": {"198.51.100.1"}}, "198.51.100.1"},
		{"what the client invented", "10.0.0.1:5", http.Header{"X-Forwarded-For": {"127.0.0.1, 198.51.100.1"}}, "198.51.100.1"},
		{"two proxies", "10.0.0.1:5", http.Header{"X-Forwarded-For": {"127.0.0.1", "198.51.100.1, 192.0.2.7"}}, "198.51.100.1"},
		{"a proxy in the client's part", "10.0.0.1:5", http.Header{"X-Forwarded-For": {"203.0.113.9, 10.9.9.9, 198.51.100.1"}}, "198.51.100.1"},
		{"a hundred hops", "10.0.0.1:5", http.Header{"X-Forwarded-For": {strings.Repeat("203.0.113.9, ", 99) + "198.51.100.1"}}, "198.51.100.1"},
		{"only proxies", "10.0.0.1:5", http.Header{"X-Forwarded-For": {"10.0.0.3, 10.0.0.2"}}, "10.0.0.3"},
		{"not readable", "10.0.0.1:5", http.Header{"X-Forwarded-For": {"203.0.113.9, unknown"}}, "10.0.0.1"},
		{"not readable behind a proxy", "10.0.0.1:5", http.Header{"X-Forwarded-For": {"203.0.113.9, unknown, 10.0.0.2"}}, "10.0.0.2"},
		{"no header", "10.0.0.1:5", nil, "10.0.0.1"},
		{"with a port", "10.0.0.1:5", http.Header{"X-Forwarded-For": {"198.51.100.1:1234"}}, "198.51.100.1"},
		{"IPv6", "[fd00::1]:5", http.Header{"X-Forwarded-For": {"2001:db8::1"}}, "2001:db8::1"},
		{"IPv4 in IPv6", "[::ffff:10.0.0.1]:5", http.Header{"X-Forwarded-For": {"::ffff:198.51.100.1"}}, "198.51.100.1"},
		{"Forwarded", "10.0.0.1:5", http.Header{"Forwarded": {`for=203.0.113.9, for="[2001:db8::1]:80";proto=https;by=10.0.0.1`}}, "2001:db8::1"},
		{"Forwarded without for", "10.0.0.1:5", http.Header{"Forwarded": {"for=203.0.113.9, proto=https"}}, "10.0.0.1"},
		{"Forwarded that is hidden", "10.0.0.1:5", http.Header{"Forwarded": {"for=203.0.113.9, for=_secret"}}, "10.0.0.1"},
		{"both", "10.0.0.1:5", http.Header{"X-Forwarded-For": {"198.51.100.1"}, "Forwarded": {"for=127.0.0.1"}}, "10.0.0.1"},
	} {
		r := &http.Request{RemoteAddr: tt.peer, Header: tt.header}
		if got := sender(r, proxies); got != netip.MustParseAddr(tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, got, tt.want)
		}
	}
}

// entriesOf returns the lines of an access log.
func entriesOf(t *testing.T, text string) (all []entry) {
	t.Helper()
	for line := range strings.Lines(text) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

// A refused request has a line too, without texts that only the client made up.
func TestAccessLogOfRefusals(t *testing.T) {
	name := filepath.Join(t.TempDir(), "access")
	f := start(t, Config{AccessLog: name, Proxies: []string{"10.0.0.0/8"}})
	ask := func(method, url string, change func(*http.Request)) {
		r := httptest.NewRequest(method, url, http.NoBody)
		r.RemoteAddr = "10.0.0.1:5"
		r.Header.Set("X-Forwarded-For", "127.0.0.1, 198.51.100.1")
		if change != nil {
			change(r)
		}
		f.ServeHTTP(httptest.NewRecorder(), r)
	}
	ask("GET", "http://localhost/mcp?access_token=CANARY", nil)
	ask("GET", "http://localhost/CANARY", nil)
	ask("CANARY", "http://localhost/mcp", nil)
	ask("GET", "http://evil.example/mcp", func(r *http.Request) {
		r.Header.Set("Mcp-Session-Id", "CANARY")
		r.Header.Set("Authorization", "Bearer CANARY")
		r.Header.Set("Cookie", "CANARY")
		r.Header.Set("Sec-WebSocket-Protocol", "mcp, mcp.auth.CANARY")
	})
	ask("POST", "http://localhost/mcp", func(r *http.Request) { r.RemoteAddr = "198.51.100.7:5" })
	f.end()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "CANARY") {
		t.Errorf("a line has what a client sent:\n%s", text)
	}
	want := []entry{
		{From: "198.51.100.1", HTTP: "GET", Route: "/mcp", Status: 200, Bytes: 4},
		{From: "198.51.100.1", HTTP: "GET", Status: 404},
		{From: "198.51.100.1", HTTP: "_other", Route: "/mcp", Status: 200, Bytes: 4},
		{From: "198.51.100.1", HTTP: "GET", Status: 403, Session: sessionDigest("CANARY")},
		{From: "198.51.100.7", HTTP: "POST", Status: 403},
	}
	got := entriesOf(t, string(text))
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), text)
	}
	for i, e := range got {
		if e.Time == "" || len(e.Session) != 0 && len(e.Session) != 8 {
			t.Errorf("line %d: %+v", i+1, e)
		}
		if want[i].Status >= 400 {
			e.Bytes = 0 // the size of an error text does not matter
		}
		e.Time, e.MS = "", 0
		if e != want[i] {
			t.Errorf("line %d: got %+v, want %+v", i+1, e, want[i])
		}
	}
}

// stuck is an output whose writes block until it is released.
type stuck struct {
	begun, release chan struct{}
	text           strings.Builder
}

func (s *stuck) Write(p []byte) (int, error) {
	select {
	case s.begun <- struct{}{}:
	default:
	}
	<-s.release
	return s.text.Write(p)
}

// Requests do not wait for a log that is stuck, and lost lines are counted.
func TestAccessLogIsSlow(t *testing.T) {
	out := &stuck{begun: make(chan struct{}, 1), release: make(chan struct{})}
	f := start(t, Config{AccessLog: "-", Out: out})
	ask := func() {
		f.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://localhost/mcp", http.NoBody))
	}
	ask()
	<-out.begun // the log writes the first line, and takes no further ones
	for range maxLines + 10 {
		ask()
	}
	close(out.release)
	f.end()
	got, lost := entriesOf(t, out.text.String()), int64(0)
	for _, e := range got {
		lost += e.Lost
	}
	if len(got) != maxLines+1 || lost != 10 {
		t.Errorf("%d lines, and %d lost; want %d and 10", len(got), lost, maxLines+1)
	}
}

// A log that accepts no data does not keep the server from ending. A pipe without a reader
// is not opened.
func TestAccessLogThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := &testenv.Log{}
		out := &stuck{begun: make(chan struct{}, 1), release: make(chan struct{})}
		defer close(out.release)
		l, err := openAccessLog("-", out, slog.New(slog.NewTextHandler(said, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			l.follow(ctx)
		}()
		l.add(entry{})
		<-out.begun
		l.add(entry{})
		cancel()
		<-over
		if !strings.Contains(said.String(), "last lines are lost") || !strings.Contains(said.String(), "lines=2") {
			t.Errorf("it logged %q", said)
		}
	})
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openAccessLog(pipe, io.Discard, slog.New(slog.DiscardHandler)); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("a pipe without a reader: %v", err)
	}
}

// broken is an output whose writes fail.
type broken struct{ writes int }

func (b *broken) Write([]byte) (int, error) {
	b.writes++
	return 0, errors.New("no space left")
}

// The failure of a log is reported once.
func TestAccessLogIsBroken(t *testing.T) {
	said := &testenv.Log{}
	out := &broken{}
	l, err := openAccessLog("-", out, slog.New(slog.NewTextHandler(said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		l.add(entry{})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.run(ctx)
	if n := strings.Count(said.String(), "no space left"); n != 1 || out.writes != 3 || l.lost.Load() != 3 {
		t.Errorf("reported %d times, %d writes, %d lost; want 1, 3 and 3", n, out.writes, l.lost.Load())
	}
}

// The file is opened again after it was renamed. Other users cannot read it, and a symbolic
// link is not followed.
func TestAccessLogRotates(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "access")
	l, err := openAccessLog(name, io.Discard, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l.write(entry{Status: 1})
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	l.write(entry{Status: 2})
	l.reopen()
	l.write(entry{Status: 3})
	l.close()
	for file, want := range map[string]int{name + ".1": 2, name: 1} {
		text, err := os.ReadFile(file)
		if got := entriesOf(t, string(text)); err != nil || len(got) != want {
			t.Errorf("%s: %d lines, %v; want %d", file, len(got), err, want)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want a file that others cannot read", file, info.Mode(), err)
		}
	}
	if err := os.Symlink(name, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := openAccessLog(filepath.Join(dir, "link"), nil, nil); err == nil {
		t.Error("a link is followed")
	}
}
