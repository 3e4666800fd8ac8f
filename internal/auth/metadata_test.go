package auth

import (
	"errors"
	"net/http/httptest"
	"slices"
	"testing"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

const twoKnownScopes = "  scopes: {read: {tools: Read}, run: {tools: Bash}}\n"

// The metadata are compared byte by byte: those of the server at both of their paths, and
// those of a place, whose resource is the address that its client was given.
func TestMetadata(t *testing.T) {
	s := newScene(t, "", twoKnownScopes)
	ask := func(method, path, place string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		if place != "" {
			r = r.WithContext(InPlace(r.Context(), place))
		}
		rw := httptest.NewRecorder()
		s.ServeHTTP(rw, r)
		return rw
	}
	document := func(resource string) string {
		return `{"resource":"` + resource + `","resource_name":"belljar","authorization_servers":["` + s.stand.URL + `"],"scopes_supported":["read","run"],"bearer_methods_supported":["header"]}`
	}
	for _, tt := range []struct {
		method, path, place string
		status              int
		text                string
	}{
		{"GET", "/.well-known/oauth-protected-resource", "", 200, document(ours)},
		{"GET", "/.well-known/oauth-protected-resource/mcp", "", 200, document(ours)},
		{"GET", "/.well-known/oauth-protected-resource/w/site/mcp", "/w/site/mcp", 200, document("https://belljar.example/w/site/mcp")},
		{"HEAD", "/.well-known/oauth-protected-resource/mcp", "", 200, ""},
		{"GET", "/.well-known/oauth-protected-resource/", "", 404, "404 page not found\n"},
		{"GET", "/.well-known/oauth-protected-resource/other", "", 404, "404 page not found\n"},
		{"POST", "/.well-known/oauth-protected-resource/mcp", "", 405, "the metadata can only be read; use GET\n"},
	} {
		rw := ask(tt.method, tt.path, tt.place)
		if rw.Code != tt.status || rw.Body.String() != tt.text {
			t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.path, rw.Code, rw.Body, tt.status, tt.text)
		}
		if h := rw.Header(); tt.status == 200 && (h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "public, max-age=300") {
			t.Errorf("%s %s: the headers are %v", tt.method, tt.path, h)
		}
	}
	none, err := policies.Parse("p.yaml", []byte("version: 1\nprofiles: {p: {}}\ntenants: {a: {}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	s.Trust(none)
	for _, place := range []string{"", "/w/site/mcp"} {
		if rw := ask("GET", MetadataPath+"/mcp", place); rw.Code != 404 {
			t.Errorf("without issuers: %d %s", rw.Code, rw.Body)
		}
	}
}

// The challenge of each refusal is compared byte by byte. It names the metadata of the
// place that the request is for.
func TestChallenge(t *testing.T) {
	s := newScene(t, "", twoKnownScopes)
	const at, inPlace = `, resource_metadata="https://belljar.example/.well-known/oauth-protected-resource`, `/w/site/mcp`
	for _, tt := range []struct {
		err  error
		want string // header without the address of the metadata
	}{
		{mcp.ErrNoToken, `Bearer realm="belljar", scope="read run"`},
		{errors.New("expired"), `Bearer realm="belljar", error="invalid_token", scope="read run"`},
		{&mcp.ScopeError{Scopes: []string{"run"}}, `Bearer realm="belljar", error="insufficient_scope", scope="run"`},
		{&mcp.ScopeError{}, `Bearer realm="belljar", error="insufficient_scope"`},
	} {
		if got, want := s.Challenge(t.Context(), tt.err), tt.want+at+`/mcp"`; got != want {
			t.Errorf("%v:\n got %s\nwant %s", tt.err, got, want)
		}
		if got, want := s.Challenge(InPlace(t.Context(), inPlace), tt.err), tt.want+at+inPlace+`"`; got != want {
			t.Errorf("%v in a place:\n got %s\nwant %s", tt.err, got, want)
		}
	}
	own := New(Config{Known: func(string) bool { return true }})
	own.SetResource(ours)
	if got := own.Challenge(t.Context(), mcp.ErrNoToken); got != `Bearer realm="belljar"` {
		t.Errorf("without issuers: %s", got)
	}
}

// A token for the server is valid in each of its places. A token for a place is valid only
// in that place, whichever place it is sent to first.
func TestAudienceOfPlaces(t *testing.T) {
	s := newScene(t, "", "")
	const one, two = "/w/one/mcp", "/w/two/mcp"
	of := func(path string) string { return resourceAt(ours, path) }
	for name, tt := range map[string]struct {
		audience any
		good     []string // paths where the token is valid; the empty path is the server
	}{
		"the server":              {ours, []string{"", one, two}},
		"a place":                 {of(one), []string{one}},
		"a place with a slash":    {of(one) + "/", []string{one}},
		"two places":              {[]string{of(one), of(two)}, []string{one, two}},
		"a place and the server":  {[]string{of(one), ours}, []string{"", one, two}},
		"a place of another host": {"https://other.example" + one, nil},
		"what begins as a place":  {of(one) + "/x", nil},
	} {
		for _, first := range []string{"", one, two} {
			token := s.token("aud", tt.audience, "jti", name+first)
			for _, path := range []string{first, "", one, two, first} { // the later requests are answered from the cache
				ctx := t.Context()
				if path != "" {
					ctx = InPlace(ctx, path)
				}
				_, err := s.Authenticate(ctx, token)
				if good := slices.Contains(tt.good, path); good != (err == nil) || !good && reasonOf(err) != Audience {
					t.Errorf("for %s, in %q: %v, want it accepted: %t", name, path, err, good)
				}
			}
		}
	}
	// If the policy names the audience, the URLs of places are not accepted as audience.
	s = newScene(t, ", audience: [api://belljar]", "")
	for audience, good := range map[string]bool{"api://belljar": true, of(one): false} {
		if _, err := s.Authenticate(InPlace(t.Context(), one), s.token("aud", audience)); good != (err == nil) {
			t.Errorf("for %s: %v, want it accepted: %t", audience, err, good)
		}
	}
}
