package browser_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

func TestErrors(t *testing.T) {
	r := newRig(t, browser.Config{})
	r.page("/plain", "<!doctype html><p>plain")
	r.mux.HandleFunc("/auth", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	r.mux.HandleFunc("/none", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	r.mux.HandleFunc("/file", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="tool.bin"`)
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write([]byte("data"))
	})
	r.mux.HandleFunc("/circle", func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, "/circle", http.StatusFound) })
	r.mux.HandleFunc("/to-file", func(w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, "file:///etc/passwd", http.StatusFound)
	})
	r.page("/js-to-file", `<!doctype html><p>text<script>location = "/to-file"</script>`)
	r.page("/js-to-circle", `<!doctype html><p>text<script>location = "/circle"</script>`)
	r.page("/js-to-nobody", `<!doctype html><p>text<script>location = "http://elsewhere.example:81/"</script>`)
	r.page("/js-to-tls", `<!doctype html><p>text<script>location = "https://elsewhere.example/"</script>`)
	r.page("/js-to-late", `<!doctype html><p>text<script>onload = () => setTimeout(() => location = "/circle", 1)</script>`)
	r.mux.HandleFunc("/never", func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	r.page("/spin", "<!doctype html><p>spins<script>for(;;);</script>")
	r.page("/crash", "<!doctype html><p>text")
	for _, tt := range []struct {
		name string
		req  browser.Request
		want browser.Kind
		net  string
		says string
	}{
		{"auth", browser.Request{URL: r.url("/auth")}, browser.KindUnauthorized, "", "Basic"},
		{"no content", browser.Request{URL: r.url("/none")}, browser.KindUnreachable, "net::ERR_ABORTED", "204"},
		{"file", browser.Request{URL: r.url("/file")}, browser.KindDownload, "", "tool.bin"},
		{"circle", browser.Request{URL: r.url("/circle")}, browser.KindUnreachable, "net::ERR_TOO_MANY_REDIRECTS", "circle"},
		{"redirect to a file", browser.Request{URL: r.url("/to-file")}, browser.KindRefused, "net::ERR_UNSAFE_REDIRECT", ""},
		{"script leads to a file", browser.Request{URL: r.url("/js-to-file")}, browser.KindRefused, "net::ERR_UNSAFE_REDIRECT", ""},
		{"script leads into a circle", browser.Request{URL: r.url("/js-to-circle")}, browser.KindUnreachable, "net::ERR_TOO_MANY_REDIRECTS", ""},
		{"script leads to a closed door", browser.Request{URL: r.url("/js-to-nobody")}, browser.KindUnreachable, "", "elsewhere.example"},
		{"script leads to a closed door, TLS", browser.Request{URL: r.url("/js-to-tls")}, browser.KindUnreachable, "net::ERR_TUNNEL_CONNECTION_FAILED", "elsewhere.example"},
		{"script leads into a circle later", browser.Request{URL: r.url("/js-to-late")}, browser.KindUnreachable, "net::ERR_TOO_MANY_REDIRECTS", ""},
		{"no answer", browser.Request{URL: r.url("/never"), Timeout: 2 * time.Second}, browser.KindTimedOut, "", "no page in time"},
		{"busy", browser.Request{URL: r.url("/spin"), Timeout: 5 * time.Second}, browser.KindTimedOut, "", "scripts"},
		{"refused by the door", browser.Request{URL: "http://elsewhere.example/"}, browser.KindUnreachable, "", "elsewhere.example"},
		{"refused by the door, TLS", browser.Request{URL: "https://elsewhere.example/"}, browser.KindUnreachable, "net::ERR_TUNNEL_CONNECTION_FAILED", "elsewhere.example"},
		{"an address", browser.Request{URL: "http://169.254.169.254/latest/meta-data"}, browser.KindUnreachable, "", "169.254.169.254"},
		{"TLS that is none", browser.Request{URL: strings.Replace(r.url("/plain"), "http:", "https:", 1)}, browser.KindBadTLS, "net::ERR_SSL_PROTOCOL_ERROR", ""},
		{"selector", browser.Request{URL: r.url("/plain"), Selector: "p:::x"}, browser.KindRefused, "", "CSS"},
		{"file scheme", browser.Request{URL: "file:///etc/passwd"}, browser.KindRefused, "", ""},
		{"chrome scheme", browser.Request{URL: "chrome://version"}, browser.KindRefused, "", ""},
		{"data scheme", browser.Request{URL: "data:text/html,x"}, browser.KindRefused, "", ""},
		{"javascript scheme", browser.Request{URL: "javascript:alert(1)"}, browser.KindRefused, "", ""},
		{"blob scheme", browser.Request{URL: "blob:http://x/1"}, browser.KindRefused, "", ""},
		{"view-source", browser.Request{URL: "view-source:http://site.example/"}, browser.KindRefused, "", ""},
		{"no scheme", browser.Request{URL: "site.example"}, browser.KindRefused, "", ""},
		{"user", browser.Request{URL: "http://a:b@site.example/"}, browser.KindRefused, "", ""},
		{"space", browser.Request{URL: "http://site.example/ x"}, browser.KindRefused, "", ""},
		{"backslash", browser.Request{URL: `http:\\site.example`}, browser.KindRefused, "", ""},
		{"wait", browser.Request{URL: r.url("/plain"), Wait: time.Hour}, browser.KindRefused, "", "wait_ms"},
		{"header", browser.Request{URL: r.url("/plain"), Headers: map[string]string{"a b": "c"}}, browser.KindRefused, "", "header"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := r.load(tt.req)
			var e *browser.Error
			if !errors.As(err, &e) || e.Kind != tt.want || tt.net != "" && e.Net != tt.net || !strings.Contains(e.Message, tt.says) {
				t.Errorf("got %+v, %+v, want %v %s %q", l, e, tt.want, tt.net, tt.says)
			}
			if e != nil {
				t.Log(e.Message)
			}
		})
	}
	if l := r.must(browser.Request{URL: r.url("/plain")}); !strings.Contains(l.HTML, "plain") {
		t.Errorf("got %+v", l)
	}
	if s := r.pool.Stats(); s.Died > 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestBadTLS checks that a certificate of an unknown authority is reported, and that
// nothing is read.
func TestBadTLS(t *testing.T) {
	r := newRig(t, browser.Config{})
	web := httptest.NewTLSServer(r.mux)
	t.Cleanup(web.Close)
	r.port = web.Listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // httptest listens on TCP
	_, err := r.load(browser.Request{URL: strings.Replace(r.url("/"), "http:", "https:", 1)})
	if browser.KindOf(err) != browser.KindBadTLS {
		t.Errorf("got %v", err)
	}
}

// TestPartial checks that the part of a page that has loaded when the time is up is
// returned, and that the result says that it is only a part.
func TestPartial(t *testing.T) {
	r := newRig(t, browser.Config{})
	r.mux.HandleFunc("/slow", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>Slow</title><p>first part"))
		w.(http.Flusher).Flush() //nolint:forcetypeassert // of net/http
		<-q.Context().Done()
	})
	r.page("/clock", `<!doctype html><p id=c>0<script>setInterval(() => { c.textContent++ }, 10)</script>`)
	if l := r.must(browser.Request{URL: r.url("/clock")}); l.Partial != "" || !strings.Contains(l.HTML, "<p") {
		t.Errorf("clock: %+v", l)
	}
	// Each of these loads takes all of its time. The browser runs by now, so little is
	// needed.
	l := r.must(browser.Request{URL: r.url("/slow"), Timeout: 5 * time.Second})
	if l.Partial == "" || !strings.Contains(l.HTML, "first part") || l.Title != "Slow" || l.Status != 200 {
		t.Errorf("got %+v", l)
	}
	l = r.must(browser.Request{URL: r.url("/clock"), Selector: "#never", Timeout: 5 * time.Second})
	if !strings.Contains(l.Partial, "time") && !strings.Contains(l.Partial, "selector") {
		t.Errorf("selector: %+v", l)
	}
}

func TestNotes(t *testing.T) {
	r := newRig(t, browser.Config{})
	r.page("/alert", `<!doctype html><script>alert("hello"); confirm("sure?"); prompt("who?")</script><p>after`)
	r.page("/leave", `<!doctype html><script>onbeforeunload = () => "stay"; location.href = "/alert"</script>`)
	r.page("/popup", `<!doctype html><p>opens<script>for (let i = 0; i < 5; i++) window.open("/popped" + i)</script>`)
	r.page("/image", `<!doctype html><p>x<img src="http://elsewhere.example/i.png"><script src="http://169.254.169.254/x.js"></script>`)
	r.page("/save", `<!doctype html><p>x<a id=a href="data:application/octet-stream,x" download=f>f</a><script>a.click()</script>`)
	l := r.must(browser.Request{URL: r.url("/alert")})
	if !strings.Contains(l.HTML, "after") || len(l.Notes) != 3 || !strings.Contains(l.Notes[0], "hello") {
		t.Errorf("alert: %+v", l)
	}
	if l := r.must(browser.Request{URL: r.url("/leave")}); !strings.Contains(l.HTML, "after") {
		t.Errorf("leave: %+v", l)
	}
	l = r.must(browser.Request{URL: r.url("/popup"), Wait: 300 * time.Millisecond})
	t.Logf("popup: %q", l.Notes)
	l = r.must(browser.Request{URL: r.url("/image")})
	if len(l.Refused) != 2 {
		t.Errorf("refused: %+v", l.Refused)
	}
	l = r.must(browser.Request{URL: r.url("/save"), Wait: 200 * time.Millisecond})
	t.Logf("save: %q", l.Notes)
}

// TestHeaders checks that headers are sent to the origin of the page, and to no other.
func TestHeaders(t *testing.T) {
	r := newRig(t, browser.Config{})
	got := make(chan string, 16)
	r.mux.HandleFunc("/h", func(w http.ResponseWriter, q *http.Request) {
		got <- q.Host + " " + q.Header.Get("X-Token") + " " + q.Header.Get("User-Agent")
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><img src="` + strings.Replace(r.url("/i"), "site.", "other.", 1) + `"><p>x`))
	})
	r.mux.HandleFunc("/i", func(_ http.ResponseWriter, q *http.Request) { got <- q.Host + " " + q.Header.Get("X-Token") })
	r.must(browser.Request{URL: r.url("/h"), Headers: map[string]string{"x-token": "secret"}})
	if line := <-got; !strings.HasPrefix(line, "site.example:") || !strings.Contains(line, " secret ") {
		t.Errorf("the page: %q", line)
	} else {
		t.Log(line)
	}
	if line := <-got; !strings.HasPrefix(line, "other.example:") || strings.Contains(line, "secret") {
		t.Errorf("the picture: %q", line)
	}
}

func TestForbidden(t *testing.T) {
	r := newRig(t, browser.Config{})
	for _, profile := range []string{
		"net: {mode: proxy, allow: [a.example]}", "browser: sandboxed",
		"browser: sandboxed\nlimits: {pids: 16}\nnet: {mode: proxy, allow: [a.example]}",
	} {
		_, err := r.pool.Load(t.Context(), policytest.GrantProfile(t, profile), browser.Request{URL: "http://a.example/"})
		if browser.KindOf(err) != browser.KindForbidden {
			t.Errorf("%s: got %v", profile, err)
		}
		t.Log(err)
	}
	if _, err := r.pool.Load(t.Context(), policies.Grant{}, browser.Request{URL: "http://a.example/"}); browser.KindOf(err) != browser.KindForbidden {
		t.Errorf("no grant: got %v", err)
	}
}

// TestAbsent checks that, without a Chrome, nothing starts and the error says what to do.
func TestAbsent(t *testing.T) {
	s, err := sandbox.New(sandbox.Config{})
	if err != nil {
		t.Skip(err)
	}
	defer s.Close()
	p, err := browser.New(browser.Config{Supervisor: s, Program: "/usr/bin/no-such-browser"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	g := policytest.GrantProfile(t, "browser: degraded\nnet: {mode: proxy, allow: [a.example]}")
	_, err = p.Load(t.Context(), g, browser.Request{URL: "http://a.example/"})
	if browser.KindOf(err) != browser.KindAbsent || !strings.Contains(err.Error(), "belljar browser doctor") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Load(ctx, g, browser.Request{URL: "http://a.example/"}); err == nil {
		t.Error("a call that was given up has a page")
	}
}

func TestDraw(t *testing.T) {
	r := newRig(t, browser.Config{})
	svg := `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><rect width="40" height="20" fill="red"/><image href="` + r.url("/leak.png") + `"/><script>fetch("` + r.url("/leak") + `")</script></svg>`
	hit := make(chan string, 8)
	r.mux.HandleFunc("/", func(_ http.ResponseWriter, q *http.Request) { hit <- q.URL.Path })
	d, err := r.pool.Draw(t.Context(), r.grant("t"), browser.Drawing{SVG: []byte(svg)})
	if err != nil {
		t.Fatal(err)
	}
	if d.Width != 40 || d.Height != 20 || !strings.HasPrefix(string(d.PNG), "\x89PNG") {
		t.Errorf("got %d x %d, %d bytes", d.Width, d.Height, len(d.PNG))
	}
	if d, err := r.pool.Draw(t.Context(), r.grant("t"), browser.Drawing{SVG: []byte(svg), Width: 400, Height: 200}); err != nil || d.Width != 400 {
		t.Errorf("got %+v, %v", d, err)
	}
	if _, err := r.pool.Draw(t.Context(), r.grant("t"), browser.Drawing{SVG: []byte("<svg")}); browser.KindOf(err) != browser.KindRefused {
		t.Errorf("broken: %v", err)
	}
	if len(hit) > 0 {
		t.Errorf("it fetched %s", <-hit)
	}
}

// TestNotesOfPages checks that a text of a page in a note or message is one line of
// characters that show as themselves, and is cut.
func TestNotesOfPages(t *testing.T) {
	for text, want := range map[string]string{
		"a dialog":              "a dialog",
		"\x1b[2J\u009b2J\x00":   " [2J 2J ",
		"\u202eabc\u2028\u200b": " abc  ",
		"\xffé日":                "?é日",
		"0123456789abcdef":      "012345678...",
	} {
		if got := browser.Clip(text, 12); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
