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

// doctorOf returns the findings of `doctor --http` about a server, by the names of the
// checks.
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

// TestDoctorOfServers checks that doctor finds no fault in a server alone, neither for a
// client nor for a stranger. Behind a proxy that breaks something, the check for that
// fails, and the checks for other things do not.
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
	// A wrong path is not reported as a token that is refused or missing.
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
	// pass sends a request on to the server once its whole body has arrived: a ReverseProxy
	// may cut an answer that comes before the ReverseProxy has seen the end of the body.
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
	// as returns a proxy that passes everything on, with a change.
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
		check string // name of the check that must fail; empty if none may
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
		// like nginx with its default settings, which may be intended
		{"", around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Upgrade")
			next.ServeHTTP(w, r)
		})},
		{"stream", around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && r.Header.Get("Mcp-Session-Id") != "" {
				<-r.Context().Done() // like a proxy that waits for the end of the answer
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

// follows reports whether other may fail as well if check fails.
func follows(check, other string) bool {
	return check == "login" && other == "wrong token"
}

// TestFindingIsOneLine checks that words of a server that doctor looks at add no line to the
// findings.
func TestFindingIsOneLine(t *testing.T) {
	var out strings.Builder
	found := []webcheck.Finding{{Check: "TLS", Verdict: webcheck.Wrong, Detail: "a\nok\tlogin\tall is well\x1b[2J"}}
	if err := printFindings(&out, found, false, false); err != nil || out.String() != "WRONG  TLS  a ok login all is well [2J\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}
