package reader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/browser/browsertest"
	"belljar.dev/browser/fetch"
	"belljar.dev/browser/fetch/fetchtest"
	"belljar.dev/browser/reader"
	"belljar.dev/policies"
)

const policy = `
version: 1
defaults: {profile: pages}
profiles:
  pages: {net: {mode: proxy, allow: ["*"]}, read: {%s}}
rules:
  - {id: pages, match: {tool: ReadDocs, url: ["http://<public>/**", "https://<public>/**"]}, decision: allow}
  - {id: not-here, match: {tool: ReadDocs, url: "*://denied.example/**"}, decision: deny, reason: It is not for agents.}
`

// rig is a reader with a network of its own, and with a browser that renders pages as the
// test says.
type rig struct {
	*fetchtest.Net
	r    *reader.Reader
	fake *browsertest.Fake
}

func newRig(t testing.TB, withBrowser bool) *rig {
	t.Helper()
	r := &rig{Net: fetchtest.New(t), fake: &browsertest.Fake{Pages: map[string]*browser.Loaded{}, Errors: map[string]error{}}}
	f := fetch.New(fetch.Config{Door: r.Door, Burst: 1 << 30})
	t.Cleanup(func() { f.Close() })
	cfg := reader.Config{Fetch: f}
	if withBrowser {
		cfg.Browser = r.fake
	}
	var err error
	if r.r, err = reader.New(cfg); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) grant(t testing.TB, read string) policies.Grant {
	t.Helper()
	return fetchtest.Grant(t, fmt.Sprintf(policy, read), "local", "http://x.example/")
}

func page(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, body)
	})
}

var (
	full  = "<html><head><title>T</title></head><body><main><h1>Static</h1><p>" + strings.Repeat("Words that are there. ", 30) + "</p></main></body></html>"
	empty = `<html><head><title>T</title></head><body><div id="root"></div><script src="/app.js"></script></body></html>`
	made  = "<html><head><title>T</title></head><body><div id=root><h1>Made</h1><p data-belljar-hidden=display>not seen</p><p>" + strings.Repeat("Words from a script. ", 30) + "</p></div></body></html>"
)

// TestLanes checks that the page itself, the call and the policy decide how a page is read,
// and that the result says so.
func TestLanes(t *testing.T) {
	r := newRig(t, true)
	r.Serve(t, "a.example", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch req.URL.Path {
		case "/empty", "/broken", "/leads", "/denied", "/twice", "/back":
			io.WriteString(w, empty)
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"a": 1}`)
		case "/packed", "/packed-broken":
			w.Header().Set("Content-Encoding", "br")
			io.WriteString(w, "\x8b\x02\x80<p>x\x03")
		default:
			io.WriteString(w, full)
		}
	}))
	for _, path := range []string{"/empty", "/full", "/packed"} {
		r.fake.Pages["http://a.example"+path] = &browser.Loaded{HTML: made, Status: 200, Notes: []string{"a dialog was dismissed"}}
	}
	r.fake.Errors["http://a.example/broken"] = &browser.Error{Kind: browser.KindCrashed, Message: "the page died twice"}
	r.fake.Pages["http://a.example/leads"] = &browser.Loaded{HTML: made, Status: 200, URL: "http://b.example/"}
	r.fake.Pages["http://a.example/denied"] = &browser.Loaded{HTML: made, Status: 200, URL: "http://denied.example/"}
	// The server redirects the browser, and then the scripts of that page lead it on.
	moved := []browser.Redirect{{From: "http://a.example/twice", To: "http://a.example/next", Status: 302}}
	r.fake.Pages["http://a.example/twice"] = &browser.Loaded{HTML: made, Status: 200, URL: "http://denied.example/", Redirects: moved}
	r.fake.Pages["http://a.example/back"] = &browser.Loaded{HTML: made, Status: 200, URL: "http://a.example/next#part", Redirects: moved}
	for i, test := range []struct {
		path, read string
		q          reader.Query
		rendered   string
		why, note  string
		text       string // part of the page's text; empty for a stop
	}{
		{"/full", "", reader.Query{}, "static", "the server's text is the page", "", "Static"},
		{"/empty", "", reader.Query{}, "chrome", "#root", "dialog", "Made"},
		{"/empty", "render: never", reader.Query{}, "static", "nothing is rendered under this policy", "incomplete without a browser", ""},
		{"/empty", "render: never", reader.Query{Render: "always"}, "static", "nothing is rendered", "incomplete", ""},
		{"/empty", "", reader.Query{Render: "never"}, "static", "nothing is rendered", "incomplete", ""},
		{"/full", "render: always", reader.Query{}, "chrome", "every page", "", "Made"},
		{"/full", "", reader.Query{Render: "always"}, "chrome", "every page", "", "Made"},
		{"/full", "render: always", reader.Query{Render: "auto"}, "static", "the server's text", "", "Static"},
		{"/full", "", reader.Query{Wait: time.Second}, "chrome", "asks to wait", "", "Made"},
		{"/full", "", reader.Query{Selector: "h1"}, "chrome", "selector", "", "Made"},
		{"/full", "", reader.Query{Until: browser.UntilLoad}, "chrome", "when the page counts as loaded", "", "Made"},
		{"/full", "", reader.Query{Picture: true}, "chrome", "picture", "", "Made"},
		{"/full", "render: never", reader.Query{Wait: time.Second}, "static", "nothing is rendered", "Something was not done, since no browser rendered the page: the call asks to wait.", "Static"},
		{"/packed", "", reader.Query{}, "chrome", "that only browsers support", "dialog", "Made"},
		{"/json", "", reader.Query{Wait: time.Second}, "static", "the server's text", "Only pages of HTML are rendered", `"a"`},
		{"/broken", "", reader.Query{}, "static", "no browser rendered it: the page died twice", "incomplete", ""},
	} {
		q := test.q
		q.URL = "http://a.example" + test.path
		res, err := r.r.Read(t.Context(), r.grant(t, test.read), q)
		if err != nil {
			t.Errorf("%d %s: %v", i, test.path, err)
			continue
		}
		if res.Rendered != test.rendered || !strings.Contains(res.Why, test.why) || !strings.Contains(strings.Join(res.Notes, "\n"), test.note) || !strings.Contains(res.Page.Content, test.text) {
			t.Errorf("%d %s %s: got %s since %q, notes %q, %.80q", i, test.path, test.read, res.Rendered, res.Why, res.Notes, res.Page.Content)
		}
		if strings.Contains(res.Page.Content, "not seen") {
			t.Errorf("%d: hidden text is shown", i)
		}
	}
	for path, read := range map[string]string{"/packed": "render: never", "/packed-broken": ""} {
		res, err := r.r.Read(t.Context(), r.grant(t, read), reader.Query{URL: "http://a.example" + path})
		if e, ok := errors.AsType[*fetch.Error](err); !ok || e.Kind != fetch.KindPacked || !strings.Contains(e.Message, "as br") {
			t.Errorf("%s: got %+v, %v", path, res, err)
		}
	}
	for path, want := range map[string]string{"/leads": "another host", "/denied": "another host", "/twice": "another host"} {
		res, err := r.r.Read(t.Context(), r.grant(t, ""), reader.Query{URL: "http://a.example" + path})
		if err != nil || res.Stop == nil || !strings.Contains(res.Stop.Why, want) || res.Page != nil {
			t.Errorf("%s: got %v, %+v", path, err, res)
		}
	}
	for _, path := range []string{"/denied", "/twice"} {
		if res, err := r.r.Read(t.Context(), r.grant(t, "redirects: follow"), reader.Query{URL: "http://a.example" + path}); err != nil || res.Stop == nil || !strings.Contains(res.Stop.Why, "not-here") {
			t.Errorf("%s: got %v, %+v", path, err, res)
		}
	}
	if res, err := r.r.Read(t.Context(), r.grant(t, ""), reader.Query{URL: "http://a.example/back"}); err != nil || res.Stop != nil || len(res.Redirects) != 1 {
		t.Errorf("got %v, %+v", err, res)
	}
	if res, err := r.r.Read(t.Context(), r.grant(t, "redirects: follow"), reader.Query{URL: "http://a.example/leads"}); err != nil || res.Stop != nil || res.URL != "http://b.example/" || len(res.Redirects) != 1 {
		t.Errorf("got %v, %+v", err, res)
	}
}

// TestBrowserKeepsTLS checks that the redirect of a browser from a page with TLS to one
// without is reported, as the redirect of a plain request is.
func TestBrowserKeepsTLS(t *testing.T) {
	r := newRig(t, true)
	r.ServeTLS(t, "a.example", page(empty), nil, time.Now().Add(time.Hour))
	for to, stops := range map[string]bool{"http://a.example/": true, "https://www.a.example/": false} {
		r.fake.Pages["https://a.example/"] = &browser.Loaded{HTML: made, Status: 200, URL: to}
		for read, follows := range map[string]bool{"": false, "redirects: follow": true} {
			res, err := r.r.Read(t.Context(), r.grant(t, read), reader.Query{URL: "https://a.example/"})
			if err != nil || (res.Stop != nil) != (stops && !follows) || res.Stop != nil && !strings.Contains(res.Stop.Why, "without TLS") {
				t.Errorf("%s with %q: got %v, %+v", to, read, err, res)
			}
		}
	}
}

// TestWithoutBrowser checks that, without a browser, pages are read as they are sent, and
// that the results say so.
func TestWithoutBrowser(t *testing.T) {
	r := newRig(t, false)
	r.Serve(t, "a.example", page(empty))
	r.Serve(t, "b.example", page(full))
	res, err := r.r.Read(t.Context(), r.grant(t, ""), reader.Query{URL: "http://a.example/"})
	if err != nil || res.Rendered != reader.Static || res.Why != "this server has no browser" || len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "text may be missing") {
		t.Errorf("got %v, %+v", err, res)
	}
	res, err = r.r.Read(t.Context(), r.grant(t, ""), reader.Query{URL: "http://b.example/"})
	if err != nil || res.Rendered != reader.Static || len(res.Notes) != 0 {
		t.Errorf("got %v, %+v", err, res)
	}
}

// TestKeptPages checks that a page is kept for calls that read on, but not for another
// tenant, policy or query.
func TestKeptPages(t *testing.T) {
	r := newRig(t, false)
	var asked atomic.Int64
	r.Serve(t, "a.example", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		if req.URL.Path == "/own" {
			w.Header().Set("Cache-Control", "private, no-store")
		}
		fmt.Fprintf(w, "answer %d", asked.Add(1))
	}))
	g := r.grant(t, "")
	read := func(g policies.Grant, q reader.Query) string {
		t.Helper()
		res, err := r.r.Read(t.Context(), g, q)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(res.Page.Content)
	}
	own := reader.Query{URL: "http://a.example/own"}
	onward := own
	onward.Continue = true
	other := fetchtest.Grant(t, fmt.Sprintf(policy, ""), "another", "http://x.example/")
	for i, step := range []struct {
		g    policies.Grant
		q    reader.Query
		want string
	}{
		{g, own, "answer 1"},
		{g, onward, "answer 1"},
		{g, own, "answer 2"},
		{g, onward, "answer 2"},
		{other, onward, "answer 3"},
		{g, reader.Query{URL: "http://a.example/"}, "answer 4"},
		{g, reader.Query{URL: "http://a.example/"}, "answer 4"},
		{g, reader.Query{URL: "http://a.example/", Whole: true}, "answer 4"},
		{other, reader.Query{URL: "http://a.example/"}, "answer 5"},
	} {
		if got := read(step.g, step.q); got != step.want {
			t.Errorf("step %d: got %q, want %q", i, got, step.want)
		}
	}
}

// TestPictureOfAKeptPage checks that a call that asks for a picture gets one, although the
// page was read before, and that the other parts of a page are of the same reading as the
// first, with or without a picture.
func TestPictureOfAKeptPage(t *testing.T) {
	r := newRig(t, true)
	r.Serve(t, "a.example", page(full))
	r.fake.Pages["http://a.example/"] = &browser.Loaded{HTML: made, Status: 200, Picture: []byte("png")}
	g := r.grant(t, "")
	for i, step := range []struct {
		q        reader.Query
		rendered string
		picture  bool
		cached   bool
		note     string // a part of the notes; empty if there is none
	}{
		{q: reader.Query{Picture: true}, rendered: reader.Chrome, picture: true},
		{q: reader.Query{Continue: true}, rendered: reader.Chrome, cached: true}, // no other text was read
		{q: reader.Query{}, rendered: reader.Static, cached: true},               // fetched before
		{q: reader.Query{}, rendered: reader.Static, cached: true},
		{q: reader.Query{Continue: true}, rendered: reader.Static, cached: true},
		{q: reader.Query{Picture: true}, rendered: reader.Chrome, picture: true, note: "with another text"},
		{q: reader.Query{Picture: true, Continue: true}, rendered: reader.Chrome, cached: true, note: "first part"},
		{q: reader.Query{Continue: true}, rendered: reader.Static, cached: true},
		{q: reader.Query{Picture: true}, rendered: reader.Chrome, picture: true, note: "with another text"},
		{q: reader.Query{}, rendered: reader.Static, cached: true},
	} {
		step.q.URL = "http://a.example/"
		res, err := r.r.Read(t.Context(), g, step.q)
		if err != nil {
			t.Fatal(err)
		}
		if res.Rendered != step.rendered || (res.Picture != nil) != step.picture || res.Cached != step.cached || (len(res.Notes) > 0) != (step.note != "") || !strings.Contains(strings.Join(res.Notes, " "), step.note) {
			t.Errorf("step %d: got %s, a picture of %d bytes, cached %v, notes %q", i, res.Rendered, len(res.Picture), res.Cached, res.Notes)
		}
	}
	if n := len(r.fake.Requests()); n != 3 {
		t.Errorf("the browser loaded %d pages, want 3", n)
	}
}

// TestCancel checks that the end of a call ends everything for which the call waits, also
// in the browser.
func TestCancel(t *testing.T) {
	r := newRig(t, true)
	r.Serve(t, "a.example", page(empty))
	held := make(chan struct{})
	defer close(held)
	r.fake.Block = held
	why := errors.New("not wanted any more")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := r.r.Read(ctx, r.grant(t, ""), reader.Query{URL: "http://a.example/", Progress: func(s string) {
		if s == "converting" {
			cancel(why) // the browser is called next
		}
	}})
	if !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

// BenchmarkStatic measures a small page through the static lane: the door, the request and
// the conversion.
func BenchmarkStatic(b *testing.B) {
	r := newRig(b, false)
	body := "<html><head><title>T</title></head><body><main><h1>Small</h1>" + strings.Repeat("<p>Some words of <a href=/x>a page</a> that has 32 KB of them, with <code>code</code>.</p>", 370) + "</main></body></html>"
	r.Serve(b, "a.example", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		io.WriteString(w, body)
	}))
	g := r.grant(b, "")
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := r.r.Read(b.Context(), g, reader.Query{URL: "http://a.example/"}); err != nil {
			b.Fatal(err)
		}
	}
}
