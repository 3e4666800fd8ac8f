package login

import (
	"strings"
	"testing"
)

// Any challenge yields only scopes that can be put into a request.
func FuzzChallenge(f *testing.F) {
	for _, seed := range []string{
		`Bearer realm="x", resource_metadata="https://h.example/meta", scope="a b"`, `Basic realm="a, b", Bearer scope="x\"y"`,
		`Negotiate abc==`, `Bearer scope="`, `"""`, `Bearer a=,b=c`, ``, `,`, `Bearer scope=a,scope="b c"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		_, scopes := readChallenge([]string{header})
		if len(scopes) > maxScopes {
			t.Errorf("%d scopes", len(scopes))
		}
		for _, s := range scopes {
			if s == "" || len(s) > maxScope || strings.ContainsAny(s, " \"\\\r\n\x00") {
				t.Errorf("the scope %q", s)
			}
		}
	})
}

// An accepted endpoint is https and not on this machine, and is the same when it is parsed
// again.
func FuzzEndpoint(f *testing.F) {
	for _, seed := range []string{"https://h.example/a?b", "https://127.0.0.1", "http://h.example", "https://[::1]/", "https://localhost.", "https://0x7f.1", "https://u@h", "https://h:443#", "https:///x"} {
		f.Add(seed)
	}
	r, err := parseServer(serverURL)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := r.endpoint("endpoint", text)
		if err != nil {
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("the error has control characters: %q", err)
			}
			return
		}
		if u.Scheme != "https" || u.Hostname() == "" || u.User != nil || loopback(u) {
			t.Errorf("%q was accepted", text)
		}
		again, err := r.endpoint("endpoint", u.String())
		if err != nil || origin(again) != origin(u) {
			t.Errorf("%q is %q, and that is not accepted: %v", text, u, err)
		}
	})
}
