package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"belljar.dev/browser/fetch"
	"belljar.dev/browser/fetch/fetchtest"
	"belljar.dev/policies"
)

const open = `
version: 1
defaults: {profile: pages}
profiles:
  pages: {net: {mode: proxy, allow: ["*"]}, read: {%s}}
rules:
  - {id: pages, match: {tool: ReadDocs, url: ["http://<public>/**", "https://<public>/**"]}, decision: allow}
  - {id: not-here, match: {tool: ReadDocs, url: ["*://*.denied.example/**", "*://denied.example/**"]}, decision: deny, reason: It is not for agents., instead: Read another.}
  - {id: asks, match: {tool: ReadDocs, url: "http://ask.example/**"}, decision: ask}
`

// rig is a fetcher with a network of its own.
type rig struct {
	*fetchtest.Net
	f *fetch.Fetcher
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{Net: fetchtest.New(t)}
	r.f = fetch.New(fetch.Config{Door: r.Door})
	t.Cleanup(func() {
		if err := r.f.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) get(t testing.TB, url, read string, more ...func(*fetch.Request)) (*fetch.Response, error) {
	t.Helper()
	g := fetchtest.Grant(t, fmt.Sprintf(open, read), "local", "http://x.example/")
	return r.getAs(t.Context(), g, url, more...)
}

func (r *rig) getAs(ctx context.Context, g policies.Grant, url string, more ...func(*fetch.Request)) (*fetch.Response, error) {
	req := fetch.Request{URL: url, Judge: g.DecideURL}
	for _, f := range more {
		f(&req)
	}
	return r.f.Get(ctx, g, req)
}

func kindOf(err error) fetch.Kind {
	e, ok := errors.AsType[*fetch.Error](err)
	if !ok {
		return -1
	}
	return e.Kind
}

func text(s string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) })
}

func TestGet(t *testing.T) {
	r := newRig(t)
	var got http.Header
	r.Serve(t, "a.example", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		got = req.Header.Clone()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Language", "de")
		w.Header().Set("Set-Cookie", "a=b")
		io.WriteString(w, "<p>hello")
	}))
	resp, err := r.get(t, "HTTP://A.example.#frag", "headers: [Accept-Language]", func(q *fetch.Request) { q.Headers = map[string]string{"Accept-Language": "de"} })
	if err != nil {
		t.Fatal(err)
	}
	if resp.URL != "http://a.example/" || resp.Status != 200 || string(resp.Body) != "<p>hello" || resp.Language != "de" || resp.Tries != 1 || resp.Cached {
		t.Errorf("got %+v", resp)
	}
	for name, want := range map[string]string{"Accept": fetch.Accept, "Accept-Language": "de", "Cookie": "", "Referer": "", "Accept-Encoding": "gzip, zstd"} {
		if got.Get(name) != want {
			t.Errorf("%s: got %q, want %q", name, got.Get(name), want)
		}
	}
}

// TestURLsThatAreNotFetched checks that each of these URLs is refused, with a text that
// says by whom, and that no server is asked.
func TestURLsThatAreNotFetched(t *testing.T) {
	r := newRig(t)
	r.Lead("private.example", "10.0.0.1")
	r.Lead("meta.example", "169.254.169.254")
	r.Lead("mixed.example", "127.0.0.1")
	r.Lead("mapped.example", "::ffff:169.254.169.254")
	r.Lead("nat64.example", "64:ff9b::a9fe:a9fe")
	for url, want := range map[string]struct {
		kind fetch.Kind
		text string
	}{
		"file:///etc/passwd":                  {fetch.KindURL, "a file: address is not a page"},
		"view-source:http://a.example/":       {fetch.KindURL, "only http: and https: addresses are read, not view-source:"},
		"data:text/html,<p>x":                 {fetch.KindURL, "not data:"},
		"javascript:alert(1)":                 {fetch.KindURL, "not javascript:"},
		"blob:http://a.example/x":             {fetch.KindURL, "not blob:"},
		"chrome://version":                    {fetch.KindURL, "not chrome:"},
		"ftp://a.example/":                    {fetch.KindURL, "not ftp:"},
		"a.example/x":                         {fetch.KindURL, "no scheme and host"},
		"http://2130706433/":                  {fetch.KindURL, "host"},
		"http://0x7f000001/":                  {fetch.KindURL, "host"},
		"http://0177.0.0.1/":                  {fetch.KindURL, "host"},
		"http://127.1/":                       {fetch.KindURL, "host"},
		"http://user:pw@a.example/":           {fetch.KindURL, "user information"},
		"http://a.example\\@b.example/":       {fetch.KindURL, "backslash"},
		"http://a.example/\x00":               {fetch.KindURL, "control"},
		"http://b\u00fccher.example/":         {fetch.KindURL, "host"},
		"http://" + strings.Repeat("a", 9000): {fetch.KindURL, "9007 bytes"},
		"http://127.0.0.1/":                   {fetch.KindRefused, "use the host's name"},
		"http://[::1]/":                       {fetch.KindRefused, "use the host's name"},
		"http://[::ffff:127.0.0.1]/":          {fetch.KindRefused, "use the host's name"},
		"http://[::ffff:a9fe:a9fe]/":          {fetch.KindRefused, "use the host's name"},
		"http://localhost/":                   {fetch.KindRefused, ""},
		"http://localhost./":                  {fetch.KindRefused, ""},
		"http://x.localhost/":                 {fetch.KindRefused, ""},
		"http://private.example/":             {fetch.KindRefused, "10.0.0.1"},
		"http://meta.example/":                {fetch.KindRefused, "metadata"},
		"http://mixed.example/":               {fetch.KindRefused, "127.0.0.1"},
		"http://mapped.example/":              {fetch.KindRefused, "metadata"},
		"http://nat64.example/":               {fetch.KindRefused, ""},
		"http://private.example:8080/":        {fetch.KindRefused, "8080"},
		"http://nowhere.example/":             {fetch.KindName, "has no address"},
		"http://xn--bcher-kva.example/":       {fetch.KindName, "has no address"},
	} {
		resp, err := r.get(t, url, "")
		if kindOf(err) != want.kind || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%q: got %+v, %v (%v), want %v with %q", url, resp, err, kindOf(err), want.kind, want.text)
		}
	}
	if _, err := r.getAs(t.Context(), policies.Grant{}, "http://a.example/"); kindOf(err) != fetch.KindClosed {
		t.Errorf("without a grant: %v", err)
	}
}

func TestRedirects(t *testing.T) {
	r := newRig(t)
	page := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch to := req.URL.Query().Get("to"); {
		case req.URL.Query().Has("meta"):
			fmt.Fprintf(w, `<head><noscript><meta http-equiv=refresh content="0;url=/noscript"></noscript><meta content=" 1; URL='%s'" HTTP-EQUIV=Refresh></head>`, to)
		case req.URL.Query().Has("header"):
			w.Header().Set("Refresh", "0;url="+to)
		case to != "":
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		case req.URL.Path == "/circle":
			http.Redirect(w, req, "/circle2", http.StatusFound)
		case req.URL.Path == "/circle2":
			http.Redirect(w, req, "/circle", http.StatusFound)
		case strings.HasPrefix(req.URL.Path, "/chain"):
			http.Redirect(w, req, req.URL.Path+"x", http.StatusMovedPermanently)
		case req.URL.Path == "/renews":
			io.WriteString(w, `<meta http-equiv=refresh content="0"><p>it renews itself`)
		case req.URL.Path == "/later":
			io.WriteString(w, `<meta http-equiv=refresh content="30;url=/x"><p>in a while`)
		default:
			fmt.Fprintf(w, "%s%s %q", req.Host, req.URL.Path, req.Header.Get("X-Own"))
		}
	})
	for _, name := range []string{"a.example", "www.a.example", "b.example", "x.denied.example", "ask.example"} {
		r.Serve(t, name, page)
	}
	r.ServeTLS(t, "a.example", page, nil, time.Now().Add(time.Hour))
	own := func(q *fetch.Request) { q.Headers = map[string]string{"X-Own": "mine"} }
	for _, test := range []struct {
		from, read string
		body       string // body of the page
		stop       string // why the redirect was not followed
		steps      int
	}{
		{"http://a.example/?to=/y", "", `/y "mine"`, "", 1},
		{"http://a.example/?to=http://www.a.example/y", "", `/y ""`, "", 1},
		{"http://a.example/?to=https://a.example/y", "", `/y ""`, "", 1},
		{"https://a.example/?to=http://a.example/y", "", "", "without TLS", 0},
		{"http://a.example/?to=http://b.example/y", "", "", "another host", 0},
		{"http://a.example/?to=http://b.example/y", "redirects: follow", `/y ""`, "", 1},
		{"http://a.example/?to=http://a.example:8080/y", "", "", "another host", 0},
		{"http://a.example/?to=http://x.denied.example/", "redirects: follow", "", "policy rule not-here does not allow: It is not for agents.", 0},
		{"http://a.example/?to=http://ask.example/", "redirects: follow", "", "asks requires a person's approval", 0},
		{"http://a.example/?to=http://127.0.0.1/", "redirects: follow", "", "does not allow", 0},
		{"http://a.example/?to=http://2130706433/", "redirects: follow", "", "not fetched", 0},
		{"http://a.example/?to=file:///etc/passwd", "redirects: follow", "", "file:", 0},
		{"http://a.example/?to=javascript:alert(1)", "redirects: follow", "", "javascript:", 0},
		{"http://a.example/?to=http://u@b.example/", "redirects: follow", "", "user information", 0},
		{"http://a.example/?meta&to=/y", "", `/y "mine"`, "", 1},
		{"http://a.example/?meta&to=http://b.example/", "", "", "another host", 0},
		{"http://a.example/?header&to=/y", "", `/y "mine"`, "", 1},
		{"http://a.example/renews", "", "it renews itself", "", 0},
		{"http://a.example/later", "", "in a while", "", 0},
	} {
		resp, err := r.get(t, test.from, test.read, own)
		switch {
		case err != nil:
			t.Errorf("%s: %v", test.from, err)
		case test.stop == "" && (resp.Stop != nil || !strings.Contains(string(resp.Body), test.body) || len(resp.Redirects) != test.steps):
			t.Errorf("%s: got %+v with %q and %+v", test.from, resp, resp.Body, resp.Stop)
		case test.stop != "" && (resp.Stop == nil || !strings.Contains(resp.Stop.Why, test.stop) || resp.Body != nil || resp.Stop.Instead == ""):
			t.Errorf("%s: got %+v, want a stop with %q", test.from, resp.Stop, test.stop)
		}
	}
	for url, want := range map[string]string{"http://a.example/circle": "in a circle", "http://a.example/chain": "10 redirects led to no page"} {
		if _, err := r.get(t, url, ""); kindOf(err) != fetch.KindLoop || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", url, err)
		}
	}
}

// TestBombs checks that a body is cut if it unpacks to more than a page may have, or if it
// is too long itself. The results say so, and no such body is kept in memory as a whole.
func TestBombs(t *testing.T) {
	r := newRig(t)
	zeros := make([]byte, 1<<20)
	var gz, zs bytes.Buffer
	g := gzip.NewWriter(&gz)
	z, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	for range 256 {
		g.Write(zeros)
		z.Write(zeros)
	}
	g.Close()
	z.Close()
	var empty bytes.Buffer // a member of gzip that unpacks to nothing
	gzip.NewWriter(&empty).Close()
	wide, err := zstd.NewWriter(nil, zstd.WithWindowSize(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	window := wide.EncodeAll(bytes.Repeat([]byte("abcdefgh"), 10<<20), nil)
	var written atomic.Int64
	r.Serve(t, "bomb.example", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		switch req.URL.Path {
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(gz.Bytes())
		case "/zstd":
			w.Header().Set("Content-Encoding", "zstd")
			w.Write(zs.Bytes())
		case "/window":
			w.Header().Set("Content-Encoding", "zstd")
			w.Write(window)
		case "/nothing":
			w.Header().Set("Content-Encoding", "gzip")
			for range 1 << 20 {
				if _, err := w.Write(empty.Bytes()); err != nil {
					return
				}
			}
		case "/br":
			w.Header().Set("Content-Encoding", "br")
			w.Write([]byte{1, 2, 3})
		case "/twice":
			w.Header().Set("Content-Encoding", "gzip, gzip")
		case "/notgzip":
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "plain")
		case "/long":
			w.Header().Set("Content-Length", fmt.Sprint(50<<20))
			for range 50 {
				n, err := w.Write(zeros)
				written.Add(int64(n))
				if err != nil {
					return
				}
			}
		}
	}))
	for _, path := range []string{"/gzip", "/zstd", "/long"} {
		resp, err := r.get(t, "http://bomb.example"+path, "")
		if err != nil || len(resp.Body) != fetch.DefaultBytes || !resp.Truncated || resp.Partial != "" {
			t.Errorf("%s: got %v, %d bytes, truncated %v", path, err, len(resp.Body), resp.Truncated)
		}
	}
	if n := written.Load(); n > 40<<20 {
		t.Errorf("%d bytes of the long page were taken", n)
	}
	small := func(q *fetch.Request) { q.MaxBytes = 1000 }
	for path, want := range map[string]string{
		"/br": "as br, which the request did not offer", "/twice": "more than once", "/notgzip": "as gzip, but the data is not gzip", "/nothing": "cannot be understood", "/window": "",
	} {
		kind := fetch.KindProtocol
		if path == "/br" {
			kind = fetch.KindPacked
		}
		resp, err := r.get(t, "http://bomb.example"+path, "", small)
		if kindOf(err) != kind || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %+v", path, err, resp)
		}
	}
}

// TestDeadline checks that the result of a page that never ends, or arrives too slowly, is
// the part that has arrived. If nothing has arrived, the error says so.
func TestDeadline(t *testing.T) {
	r := newRig(t)
	come := make(chan struct{}, 1)
	r.Serve(t, "slow.example", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if req.URL.Path == "/streams" {
			io.WriteString(w, "<p>the beginning")
			_ = http.NewResponseController(w).Flush()
		}
		come <- struct{}{}
		<-req.Context().Done()
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r.ServeListener("loris.example", l) // this is set before the door knows its ports
	g := fetchtest.Grant(t, fmt.Sprintf(open, ""), "local", "http://x.example/")
	for path, partial := range map[string]bool{"/streams": true, "/silent": false} {
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		resp, err := r.getAs(ctx, g, "http://slow.example"+path)
		cancel()
		<-come
		switch {
		case partial && (err != nil || string(resp.Body) != "<p>the beginning" || resp.Partial != "the time was up" || !resp.Truncated):
			t.Errorf("%s: got %v, %+v", path, err, resp)
		case !partial && (kindOf(err) != fetch.KindTimeout || !strings.Contains(err.Error(), "did not answer before the time was up")):
			t.Errorf("%s: got %v", path, err)
		}
	}
	// A header that arrives one byte at a time keeps a call no longer than the deadline.
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := io.WriteString(c, "H"); err != nil {
				return
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := r.getAs(ctx, g, "http://loris.example/"); kindOf(err) != fetch.KindTimeout && kindOf(err) != fetch.KindProtocol {
		t.Errorf("got %v", err)
	}
	<-done

	// A call that is cancelled returns its cause, and closes its connection.
	why := errors.New("not wanted any more")
	stopped, stop := context.WithCancelCause(t.Context())
	go func() {
		<-come
		stop(why)
	}()
	if _, err := r.getAs(stopped, g, "http://slow.example/streams"); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestBrokenServers(t *testing.T) {
	r := newRig(t)
	var asked atomic.Int64
	r.Serve(t, "a.example", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n := asked.Add(1)
		switch req.URL.Path {
		case "/auth":
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		case "/busy-once":
			if n == 1 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			io.WriteString(w, "now")
		case "/busy-long":
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/busy-always":
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, "come back")
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, "no such page")
		case "/hangs-up":
			if n == 1 {
				panic(http.ErrAbortHandler)
			}
			io.WriteString(w, "second time")
		case "/cut":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "some of it")
		case "/zip":
			w.Header().Set("Content-Type", "application/zip")
		case "/video":
			w.Header().Set("Content-Type", "video/mp4")
		case "/docx":
			w.Header().Set("Content-Type", "application/vnd.openxmlformats-officedocument.wordprocessingml.document")
		case "/gateway":
			w.WriteHeader(http.StatusBadGateway)
			io.WriteString(w, "no server behind it")
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	r.ServeTLS(t, "expired.example", text("x"), nil, time.Now().Add(-time.Hour))
	r.ServeTLS(t, "wrong.example", text("x"), []string{"other.example"}, time.Now().Add(time.Hour))

	for _, test := range []struct {
		path  string
		kind  fetch.Kind // kind of the error; -1 if there is an answer
		want  string     // part of the error or of the body
		asked int64
	}{
		{"/auth", fetch.KindAuth, "requires a login (Basic)", 1},
		{"/busy-once", -1, "now", 2},
		{"/busy-long", fetch.KindLimited, "asks to come back in 2m0s", 1},
		{"/busy-always", -1, "come back", 3},
		{"/missing", -1, "no such page", 1},
		{"/hangs-up", -1, "second time", 2},
		{"/cut", -1, "some of it", 1},
		{"/zip", fetch.KindType, "an archive (application/zip)", 1},
		{"/video", fetch.KindType, "leads to video (video/mp4)", 1},
		{"/docx", fetch.KindType, "an office document", 1},
		{"/none", -1, "", 1},
	} {
		asked.Store(0)
		resp, err := r.get(t, "http://a.example"+test.path, "")
		if kindOf(err) != test.kind || err != nil && !strings.Contains(err.Error(), test.want) || err == nil && !strings.Contains(string(resp.Body), test.want) {
			t.Errorf("%s: got %v, %+v", test.path, err, resp)
		}
		if asked.Load() != test.asked {
			t.Errorf("%s: asked %d times, want %d", test.path, asked.Load(), test.asked)
		}
	}
	if resp, err := r.get(t, "http://a.example/cut", ""); err != nil || !strings.Contains(resp.Partial, "connection broke") {
		t.Errorf("got %v, %+v", err, resp)
	}
	// There is no time to ask again, and the server has not asked for that.
	g := fetchtest.Grant(t, fmt.Sprintf(open, ""), "local", "http://x.example/")
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	if resp, err := r.getAs(ctx, g, "http://a.example/gateway"); err != nil || string(resp.Body) != "no server behind it" || resp.Status != http.StatusBadGateway {
		t.Errorf("got %v, %+v", err, resp)
	}
	for url, want := range map[string]string{
		"https://expired.example/": "is valid from ", "https://wrong.example/": "is for other names",
	} {
		if _, err := r.get(t, url, ""); kindOf(err) != fetch.KindTLS || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v (%v), want %q", url, err, kindOf(err), want)
		}
	}
}
