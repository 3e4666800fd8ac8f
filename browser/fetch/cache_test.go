package fetch_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/browser/fetch"
	"belljar.dev/browser/fetch/fetchtest"
	"belljar.dev/policies"
)

// TestCache checks that an answer is kept for a quarter of an hour, for its tenant and its
// policy, and that the server is asked about its ETag after that.
func TestCache(t *testing.T) {
	r := newRig(t)
	var asked, unchanged atomic.Int64
	r.Serve(t, "a.example", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n := asked.Add(1)
		w.Header().Set("Content-Type", "text/plain")
		switch req.URL.Path {
		case "/etag":
			w.Header().Set("ETag", `"one"`)
			if req.Header.Get("If-None-Match") == `"one"` {
				unchanged.Add(1)
				w.WriteHeader(http.StatusNotModified)
				return
			}
		case "/no-store":
			w.Header().Set("Cache-Control", "no-store")
		case "/moved":
			http.Redirect(w, req, "/etag", http.StatusFound)
			return
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprintf(w, "answer %d", n)
	}))
	now := time.Now()
	r.f.SetClock(func() time.Time { return now })
	one := fetchtest.Grant(t, fmt.Sprintf(open, "headers: [X-A]"), "one", "http://x.example/")
	two := fetchtest.Grant(t, fmt.Sprintf(open, ""), "two", "http://x.example/")
	header := func(q *fetch.Request) { q.Headers = map[string]string{"X-A": "b"} }
	step := func(path string, want string, cached bool, total int64) {
		t.Helper()
		resp, err := r.getAs(t.Context(), one, "http://a.example"+path)
		if err != nil || string(resp.Body) != want || resp.Cached != cached || asked.Load() != total {
			t.Errorf("%s: got %v, %q, cached %v, asked %d times, want %q, %v, %d", path, err, resp.Body, resp.Cached, asked.Load(), want, cached, total)
		}
	}
	step("/etag", "answer 1", false, 1)
	step("/etag", "answer 1", true, 1)
	step("/moved", "answer 1", true, 2) // only the redirect was requested
	step("/moved", "answer 1", true, 2)
	if resp, err := r.getAs(t.Context(), two, "http://a.example/etag"); err != nil || string(resp.Body) != "answer 3" || resp.Cached {
		t.Errorf("another tenant got %v, %+v", err, resp)
	}
	if resp, err := r.getAs(t.Context(), one, "http://a.example/etag", header); err != nil || string(resp.Body) != "answer 4" || resp.Cached {
		t.Errorf("with a header of its own: %v, %+v", err, resp)
	}
	step("/etag", "answer 1", true, 4)
	now = now.Add(16 * time.Minute)
	step("/etag", "answer 1", true, 5)
	if unchanged.Load() != 1 {
		t.Error("it was not asked about by its ETag")
	}
	step("/etag", "answer 1", true, 5)
	step("/no-store", "answer 6", false, 6)
	step("/no-store", "answer 7", false, 7)
	step("/missing", "answer 8", false, 8)
	step("/missing", "answer 8", true, 8)
	now = now.Add(2 * time.Minute)
	step("/missing", "answer 9", false, 9)
}

// TestCachedBeginning checks that a call that wants more of an answer than was kept gets the
// answer, and not the beginning of it again.
func TestCachedBeginning(t *testing.T) {
	r := newRig(t)
	r.Serve(t, "a.example", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("ETag", `"one"`)
		if req.Header.Get("If-None-Match") == `"one"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		io.WriteString(w, "the whole text")
	}))
	g := fetchtest.Grant(t, fmt.Sprintf(open, ""), "one", "http://x.example/")
	for _, most := range []int{3, 100, 3} {
		want := "the whole text"[:min(most, 14)]
		resp, err := r.getAs(t.Context(), g, "http://a.example/", func(q *fetch.Request) { q.MaxBytes = most })
		if err != nil || string(resp.Body) != want || resp.Truncated != (most < 14) {
			t.Errorf("at most %d bytes: got %v, %q, truncated %v", most, err, resp.Body, resp.Truncated)
		}
	}
}

// TestCachedRedirectIsJudged checks that a kept redirect is judged again: an address that
// was allowed when it was kept may not be allowed now.
func TestCachedRedirectIsJudged(t *testing.T) {
	r := newRig(t)
	r.Serve(t, "a.example", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, "http://b.example/", http.StatusMovedPermanently)
	}))
	r.Serve(t, "b.example", text("there"))
	g := fetchtest.Grant(t, fmt.Sprintf(open, "redirects: follow"), "one", "http://x.example/")
	if resp, err := r.getAs(t.Context(), g, "http://a.example/"); err != nil || string(resp.Body) != "there" {
		t.Fatalf("got %v, %+v", err, resp)
	}
	resp, err := r.getAs(t.Context(), g, "http://a.example/", func(q *fetch.Request) { q.Judge = nil })
	if err != nil || resp.Stop == nil || resp.Body != nil {
		t.Errorf("got %v, %+v", err, resp)
	}
}

func TestHostIsNotAskedTooOften(t *testing.T) {
	r := newRig(t)
	r.Serve(t, "a.example", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		io.WriteString(w, "x")
	}))
	r.Serve(t, "b.example", text("x"))
	g := fetchtest.Grant(t, fmt.Sprintf(open, ""), "one", "http://x.example/")
	waited := ""
	for range 21 {
		if _, err := r.getAs(t.Context(), g, "http://a.example/", func(q *fetch.Request) { q.Progress = func(s string) { waited += s + "\n" } }); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Count(waited, "before a.example is asked again") != 1 {
		t.Errorf("got %q", waited)
	}
	// Requests to other hosts and of other tenants do not wait for that.
	other := fetchtest.Grant(t, fmt.Sprintf(open, ""), "another", "http://x.example/")
	for i, ask := range []struct {
		g   policies.Grant
		url string
	}{{g, "http://b.example/"}, {other, "http://a.example/"}} {
		if _, err := r.getAs(t.Context(), ask.g, ask.url, func(q *fetch.Request) {
			q.Progress = func(s string) {
				if strings.Contains(s, "asked again") {
					t.Errorf("%d: %s", i, s)
				}
			}
		}); err != nil {
			t.Error(err)
		}
	}
}

func TestRobots(t *testing.T) {
	r := newRig(t)
	var body atomic.Value
	body.Store("User-agent: *\nDisallow: /secret\n")
	page := func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/robots.txt" {
			switch b, _ := body.Load().(string); b {
			case "503":
				w.WriteHeader(http.StatusInternalServerError)
			case "404":
				w.WriteHeader(http.StatusNotFound)
			default:
				io.WriteString(w, b)
			}
			return
		}
		if req.URL.Path == "/leads" {
			http.Redirect(w, req, "/secret/x", http.StatusFound)
			return
		}
		io.WriteString(w, "page")
	}
	r.Serve(t, "a.example", http.HandlerFunc(page))
	for _, test := range []struct {
		robots, path, read string
		allowed            bool
	}{
		{"User-agent: *\nDisallow: /secret\n", "/open", "robots: respect", true},
		{"User-agent: *\nDisallow: /secret\n", "/secret/x", "robots: respect", false},
		{"User-agent: *\nDisallow: /secret\n", "/leads", "robots: respect", false},
		{"User-agent: *\nDisallow: /secret\n", "/secret/x", "robots: ignore", true},
		{"User-agent: *\nDisallow: /\nUser-agent: belljar\nAllow: /\n", "/x", "robots: respect", true},
		{"404", "/x", "robots: respect", true},
		{"503", "/x", "robots: respect", false},
	} {
		body.Store(test.robots)
		_, err := r.get(t, "http://a.example"+test.path, test.read)
		if (err == nil) != test.allowed || err != nil && kindOf(err) != fetch.KindRobots {
			t.Errorf("%q %s %s: got %v", test.robots, test.path, test.read, err)
		}
	}
}

func TestRobotsRules(t *testing.T) {
	rules := fetch.ParseRobots([]byte("\xef\xbb\xbfUser-Agent: other\nUser-agent: BELLJAR # us\nDisallow: /a\nAllow: /a/b$\nDisallow: /*.pdf$\nDisallow:\n\nUser-agent: *\nDisallow: /\n"))
	for path, want := range map[string]bool{"/": true, "/a": false, "/ab": false, "/a/b": true, "/a/bc": false, "/x.pdf": false, "/x.pdf?y": true, "/robots.txt": true} {
		if got := rules.Allows(path); got != want {
			t.Errorf("%s: got %v", path, got)
		}
	}
	for _, x := range []struct {
		pattern, path string
		want          bool
	}{
		{"/", "/x", true},
		{"*", "/x", true},
		{"/a*c", "/abbbc", true},
		{"/a*c$", "/abbbcd", false},
		{"/a*c$", "/acbc", true},
		{"/a", "/", false},
		{"/**x", "/yx", true},
		{"$", "", true},
		{"/$", "/x", false},
		{"*$", "/x", true},
	} {
		if got := fetch.RobotsMatch(x.pattern, x.path); got != x.want {
			t.Errorf("%s on %s: got %v", x.pattern, x.path, got)
		}
	}
}

func FuzzRobots(f *testing.F) {
	f.Add([]byte("User-agent: *\nDisallow: /a*b$\n"), "/axb")
	f.Fuzz(func(_ *testing.T, text []byte, path string) { fetch.ParseRobots(text).Allows(path) })
}

func TestMetaRefresh(t *testing.T) {
	for page, want := range map[string]string{
		`<meta http-equiv="refresh" content="0; url=/x">`:                        "/x",
		`<META CONTENT='2;URL="/x y"' HTTP-EQUIV=REFRESH>`:                       "/x y",
		`<meta http-equiv=refresh content="0;/x">`:                               "/x",
		`<meta http-equiv=refresh content="0.5 url = /x">`:                       "/x",
		`<meta http-equiv=refresh content="url=/x">`:                             "",
		`<meta http-equiv=refresh content="60;url=/x">`:                          "",
		`<meta http-equiv=refresh content="99999999999999999999;url=/x">`:        "",
		`<meta http-equiv=refresh content="0">`:                                  "",
		`<noscript><meta http-equiv=refresh content="0;url=/x"></noscript>`:      "",
		`<template><meta http-equiv=refresh content="0;url=/x"></template>`:      "",
		`<script>'<meta http-equiv=refresh content="0;url=/x">'</script>`:        "",
		`<!-- <meta http-equiv=refresh content="0;url=/x"> -->`:                  "",
		`<body><meta http-equiv=refresh content="0;url=/x">`:                     "",
		strings.Repeat(" ", 70<<10) + `<meta http-equiv=refresh content="0;/x">`: "",
	} {
		if got := fetch.MetaRefresh([]byte(page)); got != want {
			t.Errorf("%.80s: got %q, want %q", page, got, want)
		}
	}
}

func FuzzMetaRefresh(f *testing.F) {
	f.Add([]byte(`<meta http-equiv="refresh" content="0; url=/x">`))
	f.Fuzz(func(_ *testing.T, page []byte) { fetch.MetaRefresh(page) })
}

// BenchmarkGet measures a page of 32 KB through the door, over a connection that is open
// already.
func BenchmarkGet(b *testing.B) {
	r := &rig{Net: fetchtest.New(b)}
	r.f = fetch.New(fetch.Config{Door: r.Door, Burst: 1 << 30})
	defer r.f.Close()
	page := "<html><body>" + strings.Repeat("<p>Some words of a page. ", 1300)
	r.Serve(b, "a.example", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, page)
	}))
	g := fetchtest.Grant(b, fmt.Sprintf(open, ""), "one", "http://x.example/")
	for b.Loop() {
		if _, err := r.getAs(b.Context(), g, "http://a.example/"); err != nil {
			b.Fatal(err)
		}
	}
}
