package origin_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"testing"

	"belljar.dev/internal/origin"
)

var guard = origin.Guard{
	Hosts:   []string{"belljar.example", "10.1.2.3"},
	Origins: []string{"https://belljar.example", "https://app.example:8443"},
}

// Each row is a request that a page can cause in a browser, or that an honest client sends.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name   string
		host   string
		tls    bool
		header http.Header
		want   error
	}{
		{name: "loopback", host: "127.0.0.1:8930"},
		{name: "any loopback address", host: "127.9.9.9"},
		{name: "localhost", host: "LocalHost:8930"},
		{name: "loopback of IPv6", host: "[::1]:8930"},
		{name: "loopback of IPv4 in IPv6", host: "[::ffff:127.0.0.1]:8930"},
		{name: "a name that the operator gave", host: "Belljar.Example:443"},
		{name: "an address that the operator gave", host: "10.1.2.3:8930"},
		{name: "the address of the connection", host: "192.0.2.1:8930"},
		{name: "rebound name", host: "evil.example", want: origin.ErrHost},
		{name: "name that begins like loopback", host: "127.0.0.1.evil.example", want: origin.ErrHost},
		{name: "name that begins like localhost", host: "localhost.evil.example", want: origin.ErrHost},
		{name: "name that ends like ours", host: "evil-belljar.example", want: origin.ErrHost},
		{name: "user before the host", host: "localhost:8930@evil.example", want: origin.ErrHost},
		{name: "no port behind the colon", host: "localhost:", want: origin.ErrHost},
		{name: "address with a zone", host: "[::1%25lo]:8930", want: origin.ErrHost},
		{name: "address with a zone in plain", host: "[::1%lo]", want: origin.ErrHost},
		{name: "address without brackets", host: "::1", want: origin.ErrHost},
		{name: "name in brackets", host: "[localhost]", want: origin.ErrHost},
		{name: "another address", host: "192.0.2.2:8930", want: origin.ErrHost},
		{name: "no Host, with HTTP/1.0", host: "", want: origin.ErrHost},
		{name: "every address", host: "0.0.0.0:8930", want: origin.ErrHost},

		{name: "own page", host: "localhost:5", header: http.Header{"Origin": {"http://localhost:5"}}},
		{name: "own page over TLS", host: "localhost:5", tls: true, header: http.Header{"Origin": {"https://localhost:5"}}},
		{name: "own page with the port of the scheme", host: "localhost:443", tls: true, header: http.Header{"Origin": {"https://localhost"}}},
		{name: "page of the public URL", host: "belljar.example", header: http.Header{"Origin": {"https://belljar.example"}}},
		{name: "page that the operator named", host: "belljar.example", header: http.Header{"Origin": {"https://app.example:8443"}, "Sec-Fetch-Site": {"cross-site"}}},
		{name: "typed into a browser", host: "localhost", header: http.Header{"Sec-Fetch-Site": {"none"}}},
		{name: "page of another site", host: "localhost:5", header: http.Header{"Origin": {"https://evil.example"}}, want: origin.ErrOrigin},
		{name: "page without a site", host: "localhost:5", header: http.Header{"Origin": {"null"}}, want: origin.ErrOrigin},
		{name: "empty", host: "localhost:5", header: http.Header{"Origin": {""}}, want: origin.ErrOrigin},
		{name: "two", host: "localhost:5", header: http.Header{"Origin": {"http://localhost:5", "https://evil.example"}}, want: origin.ErrOrigin},
		{name: "two in one", host: "localhost:5", header: http.Header{"Origin": {"http://localhost:5, https://evil.example"}}, want: origin.ErrOrigin},
		{name: "site that begins like localhost", host: "localhost:5", header: http.Header{"Origin": {"http://localhost.evil"}}, want: origin.ErrOrigin},
		{name: "page of another port", host: "localhost:5", header: http.Header{"Origin": {"http://localhost:6"}}, want: origin.ErrOrigin},
		{name: "page of another scheme", host: "127.0.0.1:5", header: http.Header{"Origin": {"https://127.0.0.1:5"}}, want: origin.ErrOrigin},
		{name: "page of another port of a named host", host: "belljar.example", header: http.Header{"Origin": {"https://app.example"}}, want: origin.ErrOrigin},
		{name: "image of another site", host: "localhost:5", header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, want: origin.ErrOrigin},
		{name: "image of a sibling", host: "localhost:5", header: http.Header{"Sec-Fetch-Site": {"same-site"}}, want: origin.ErrOrigin},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8930}
			r := (&http.Request{Method: http.MethodGet, Host: tt.host, Header: tt.header}).WithContext(
				context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(at)))
			if tt.tls {
				r.TLS = &tls.ConnectionState{}
			}
			if got := guard.Check(r); !errors.Is(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// The zero value accepts loopback, and only the server's own pages.
func TestZeroGuard(t *testing.T) {
	var g origin.Guard
	for host, want := range map[string]error{"localhost": nil, "[::1]:1": nil, "belljar.example": origin.ErrHost, "192.0.2.1": origin.ErrHost} {
		if got := g.Check(&http.Request{Host: host}); !errors.Is(got, want) {
			t.Errorf("%s: got %v, want %v", host, got, want)
		}
	}
	page := &http.Request{Host: "localhost", Header: http.Header{"Origin": {"https://belljar.example"}}}
	if got := g.Check(page); !errors.Is(got, origin.ErrOrigin) {
		t.Errorf("a page: got %v, want %v", got, origin.ErrOrigin)
	}
}

func TestParseOrigin(t *testing.T) {
	for text, want := range map[string]string{
		"https://App.Example":        "https://app.example",
		"https://app.example:443":    "https://app.example",
		"http://app.example:80":      "http://app.example",
		"http://app.example:443":     "http://app.example:443",
		"http://[::1]:8930":          "http://[::1]:8930",
		"*":                          "",
		"null":                       "",
		"https://":                   "",
		"https://app.example/":       "",
		"https://app.example/x":      "",
		"https://app.example?":       "",
		"https://app.example#":       "",
		"https://u@app.example":      "",
		"https://*.app.example":      "",
		"ftp://app.example":          "",
		"app.example":                "",
		"https://app.example:99999x": "",
	} {
		got, err := origin.ParseOrigin(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
}

func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"localhost:1", "[::1]", "a@b:1", "127.0.0.1", "::1", "[::1%lo]:1", "x:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := origin.ParseHost(s)
		if err != nil {
			return
		}
		// If a name is accepted, parsing it again returns the same name.
		again := name
		if net.ParseIP(name) != nil && net.ParseIP(name).To4() == nil {
			again = "[" + name + "]"
		}
		if back, err := origin.ParseHost(again + ":1"); err != nil || back != name {
			t.Errorf("%q is read as %q, and that as %q, %v", s, name, back, err)
		}
	})
}
