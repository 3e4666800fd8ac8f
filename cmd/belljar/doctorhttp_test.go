package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/webcheck"
)

// doctorOf is what `doctor --http` finds out about a server, by the name of the check.
func doctorOf(t *testing.T, at string, flags ...string) (found map[string]webcheck.Finding, ok bool) {
	t.Helper()
	k := newPlace(t)
	cmd := k.command(t.Context(), append([]string{"doctor", "--json", "--http", at, "--idle", "2s"}, flags...)...)
	out, err := cmd.Output()
	var report struct {
		OK     bool
		Checks []webcheck.Finding
	}
	if bad := json.Unmarshal(out, &report); bad != nil {
		t.Fatalf("%v: %s, %v", bad, out, err)
	}
	if (err == nil) != report.OK {
		t.Errorf("it ended with %v, and says %v", err, report.OK)
	}
	found = make(map[string]webcheck.Finding)
	for _, f := range report.Checks {
		found[f.Check] = f
		if (f.Verdict == webcheck.Wrong) != (f.Fix != "" && f.Verdict != webcheck.Unknown) {
			t.Errorf("%+v: what is wrong has a fix, and nothing else", f)
		}
	}
	return found, report.OK
}

// A server by itself is as it should be, for a client and for a stranger. Behind a proxy
// that breaks something, the check of that says so, and those of other things do not.
func TestDoctorOfServers(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "access.log")
	w, _, dir := servedWithAdmin(t, "--access-log", log, "--host", "proxy.example", "--websocket")
	token := filepath.Join(dir, "plain")
	put(t, token, "one\n")
	found, ok := doctorOf(t, w.url, "--token-file", token, "--access-log", log)
	if !ok || len(found) < 17 {
		t.Errorf("the server by itself: %+v", found)
	}
	for name, f := range found {
		if f.Verdict != webcheck.OK {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if found, ok := doctorOf(t, w.url); !ok || found["2025-11-25"].Verdict != webcheck.Unknown || found["login"].Verdict != webcheck.OK {
		t.Errorf("for a stranger: %+v", found)
	}
	// A wrong path is not taken for a token that is refused, or that is missing.
	found, ok = doctorOf(t, strings.TrimSuffix(w.url, "/mcp")+"/other", "--token-file", token)
	if first := found["2025-11-25"]; ok || !strings.Contains(first.Fix, "ends in /mcp") {
		t.Errorf("at another path: %+v", first)
	}
	if next := found["large body"]; next.Verdict != webcheck.Unknown || !strings.Contains(next.Detail, "session") {
		t.Errorf("at another path: %+v", next)
	}

	target, err := url.Parse(strings.TrimSuffix(w.url, "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	// pass sends a request on to the server when its whole body is there: where an answer
	// comes before a ReverseProxy has seen the end of the body, it may cut the answer.
	pass := func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		if r.In.ContentLength > 0 {
			body, err := io.ReadAll(r.In.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
		}
	}
	// as is a proxy that passes everything on.
	as := func(change func(*httputil.ReverseProxy)) http.Handler {
		p := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
			pass(r)
			r.Out.Host = r.In.Host
		}}
		change(p)
		return p
	}
	around := func(change func(http.Handler, http.ResponseWriter, *http.Request)) http.Handler {
		next := as(func(*httputil.ReverseProxy) {})
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { change(next, w, r) })
	}
	answer := func(change func(http.Header)) http.Handler {
		return as(func(p *httputil.ReverseProxy) {
			p.ModifyResponse = func(r *http.Response) error {
				change(r.Header)
				return nil
			}
		})
	}
	for _, tt := range []struct {
		check string // the one that must see it; empty for none
		proxy http.Handler
	}{
		{"", as(func(*httputil.ReverseProxy) {})},
		{"Host", as(func(p *httputil.ReverseProxy) {
			p.Rewrite = func(r *httputil.ProxyRequest) { pass(r); r.Out.Host = target.Host }
		})},
		{"Origin", around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				r.Header.Del("Origin")
			}
			next.ServeHTTP(w, r)
		})},
		{"preflight", around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodOptions {
				w.Header().Set("Access-Control-Allow-Origin", "*")
				return
			}
			next.ServeHTTP(w, r)
		})},
		{"login", answer(func(h http.Header) { h.Del("Www-Authenticate") })},
		{"token in the URL", around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			r.URL.RawQuery = ""
			next.ServeHTTP(w, r)
		})},
		{"operator's paths", around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" {
				next.ServeHTTP(w, r)
			}
		})},
		{"2025-11-25", answer(func(h http.Header) { h.Del("Mcp-Session-Id") })},
		{"2026-07-28", around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Mcp-Method")
			next.ServeHTTP(w, r)
		})},
		{"large body", around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 100<<10 {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				return
			}
			next.ServeHTTP(w, r)
		})},
		{"WebSocket", around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") != "" {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			next.ServeHTTP(w, r)
		})},
		{"", around(func(next http.Handler, w http.ResponseWriter, r *http.Request) { // as nginx is by itself: it may be meant
			r.Header.Del("Upgrade")
			next.ServeHTTP(w, r)
		})},
		{"stream", around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && r.Header.Get("Mcp-Session-Id") != "" {
				<-r.Context().Done() // as one does that waits for the end of the answer
				return
			}
			next.ServeHTTP(w, r)
		})},
	} {
		t.Run(tt.check, func(t *testing.T) {
			t.Parallel()
			proxy := httptest.NewUnstartedServer(tt.proxy)
			proxy.Config.ReadHeaderTimeout = 5 * time.Second
			proxy.Start()
			defer proxy.Close()
			found, ok := doctorOf(t, proxy.URL+"/mcp", "--token-file", token)
			for name, f := range found {
				switch {
				case name == "two lengths": // this proxy keeps the connection
				case name == tt.check && f.Verdict != webcheck.Wrong:
					t.Errorf("it is not seen: %+v", f)
				case name != tt.check && f.Verdict == webcheck.Wrong && !follows(tt.check, name):
					t.Errorf("%s: %+v", name, f)
				}
			}
			if tt.check != "" && ok {
				t.Error("it says that all is well")
			}
		})
	}
}

// follows reports whether a check sees what another one is for, too.
func follows(check, other string) bool {
	return check == "login" && other == "wrong token"
}
