package login

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestDiscoverFinds checks the places of metadata, in the order of the specification.
func TestDiscoverFinds(t *testing.T) {
	const (
		atPath = "https://mcp.example/.well-known/oauth-protected-resource/team/mcp"
		atRoot = "https://mcp.example/.well-known/oauth-protected-resource"
	)
	move := func(w *world, from, to string) {
		w.documents[to] = w.documents[from]
		delete(w.documents, from)
	}
	const issuerAt = "https://login.example/.well-known/oauth-authorization-server"
	for what, change := range map[string]func(*world){
		"in the challenge": func(w *world) {
			move(w, atPath, "https://mcp.example/meta")
			w.challenge = `Basic realm="x", Bearer resource_metadata="https://mcp.example/meta"`
		},
		"at the path, no challenge":  func(w *world) { w.challenge = "" },
		"at the path, odd challenge": func(w *world) { w.challenge = `"""` },
		"at the root": func(w *world) {
			w.challenge = "Bearer"
			move(w, atPath, atRoot)
		},
		"for the whole host": func(w *world) {
			w.challenge = ""
			move(w, atPath, atRoot)
			w.resource["resource"] = "https://MCP.example:443/"
		},
		"for a part of the host": func(w *world) { w.resource["resource"] = "https://mcp.example/team" },
		"OpenID, no path":        func(w *world) { move(w, issuerAt, "https://login.example/.well-known/openid-configuration") },
		"OAuth, with a path": func(w *world) {
			w.metadata["issuer"], w.resource["authorization_servers"] = issuerURL+"/t", []string{issuerURL + "/t"}
			move(w, issuerAt, issuerAt+"/t")
		},
		"OpenID, path inserted": func(w *world) {
			w.metadata["issuer"], w.resource["authorization_servers"] = issuerURL+"/t", []string{issuerURL + "/t"}
			move(w, issuerAt, "https://login.example/.well-known/openid-configuration/t")
		},
		"OpenID, path in front": func(w *world) {
			w.metadata["issuer"], w.resource["authorization_servers"] = issuerURL+"/t", []string{issuerURL + "/t"}
			move(w, issuerAt, "https://login.example/t/.well-known/openid-configuration")
		},
		"after three redirects": func(w *world) { w.redirects(3) },
	} {
		w := newWorld()
		change(w)
		var challenge []string
		if w.challenge != "" {
			challenge = []string{w.challenge}
		}
		e, err := Discover(t.Context(), w.client(), serverURL, challenge)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if e.Token != issuerURL+"/token" || e.Resource != w.resource["resource"] || e.Issuer != w.metadata["issuer"] {
			t.Errorf("%s: got %+v", what, e)
		}
	}
}

// redirects puts the given number of redirects before the metadata of the authorization
// server.
func (w *world) redirects(hops int) {
	at := issuerURL + "/.well-known/oauth-authorization-server"
	for n := range hops {
		next := fmt.Sprintf("%s/hop%d", issuerURL, n)
		w.documents[next] = w.documents[at]
		w.documents[at] = func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, next, http.StatusFound) }
		at = next
	}
}

// Discover refuses these metadata. Each row changes one value.
func TestDiscoverRefuses(t *testing.T) {
	const evil = "https://evil.example"
	meta := func(name string, value any) func(*world) {
		return func(w *world) { w.metadata[name] = value }
	}
	resource := func(value string) func(*world) {
		return func(w *world) { w.resource["resource"] = value }
	}
	challenge := func(address string) func(*world) {
		return func(w *world) { w.challenge = `Bearer resource_metadata="` + address + `"` }
	}
	for what, row := range map[string]struct {
		change func(*world)
		want   string
	}{
		"resource of another server":     {resource(evil + "/team/mcp"), "those of another resource"},
		"resource beside the server":     {resource("https://mcp.example/other"), "those of another resource"},
		"resource below the server":      {resource(serverURL + "/more"), "those of another resource"},
		"resource with half a segment":   {resource("https://mcp.example/tea"), "those of another resource"},
		"resource of another port":       {resource("https://mcp.example:8443/team/mcp"), "those of another resource"},
		"resource with a query":          {resource(serverURL + "?x=1"), "those of another resource"},
		"resource of http":               {resource("http://mcp.example/team/mcp"), "does not begin with https"},
		"resource with a user":           {resource("https://u:p@mcp.example/team/mcp"), "user or a password"},
		"no resource":                    {resource(""), "does not begin with https"},
		"metadata on another host":       {challenge(evil + "/meta"), "on another host"},
		"metadata on another port":       {challenge("https://mcp.example:8443/meta"), "on another host"},
		"metadata of http":               {challenge("http://mcp.example/meta"), "does not begin with https"},
		"metadata on this machine":       {challenge("https://127.0.0.1/meta"), "is on this machine"},
		"metadata in a file":             {challenge("file:///etc/passwd"), "does not begin with https"},
		"metadata that do not exist":     {challenge("https://mcp.example/none"), "no such document"},
		"no authorization server":        {func(w *world) { delete(w.resource, "authorization_servers") }, "do not name an authorization server"},
		"authorization server of http":   {func(w *world) { w.resource["authorization_servers"] = []string{"http://login.example"} }, "does not begin with https"},
		"authorization server here":      {func(w *world) { w.resource["authorization_servers"] = []string{"https://localhost:8443"} }, "is on this machine"},
		"authorization server here, odd": {func(w *world) { w.resource["authorization_servers"] = []string{"https://0x7f.1"} }, "does not begin with https"},
		"authorization server, query":    {func(w *world) { w.resource["authorization_servers"] = []string{issuerURL + "?x"} }, "contains a query"},
		"issuer of another":              {meta("issuer", evil), "those of another issuer"},
		"issuer with a slash":            {meta("issuer", issuerURL+"/"), "those of another issuer"},
		"no PKCE":                        {meta("code_challenge_methods_supported", []string{}), "does not support PKCE"},
		"plain PKCE only":                {meta("code_challenge_methods_supported", []string{"plain"}), "does not support PKCE"},
		"no codes":                       {meta("response_types_supported", []string{"token"}), "does not issue authorization codes"},
		"token endpoint of http":         {meta("token_endpoint", "http://login.example/token"), "does not begin with https"},
		"no token endpoint":              {meta("token_endpoint", ""), "does not begin with https"},
		"token endpoint on this machine": {meta("token_endpoint", "https://[::1]/token"), "is on this machine"},
		"a script to open":               {meta("authorization_endpoint", "javascript:alert(1)"), "does not begin with https"},
		"a page here to open":            {meta("authorization_endpoint", "https://app.localhost/x"), "is on this machine"},
		"a page here to open, by number": {meta("authorization_endpoint", "https://2130706433/x"), "does not begin with https"},
		"an endpoint with a fragment":    {meta("authorization_endpoint", issuerURL+"/authorize#x"), "contains a fragment"},
		"registration by http":           {meta("registration_endpoint", "http://login.example/register"), "does not begin with https"},
		"a large document":               {meta("x", strings.Repeat("a", maxDocument)), "more than 65536 bytes"},
		"a large document of the server": {func(w *world) { w.resource["x"] = strings.Repeat("a", maxDocument) }, "more than 65536 bytes"},
		"four redirects":                 {func(w *world) { w.redirects(4) }, "more than 3 times"},
		"a redirect to another host": {func(w *world) {
			w.network[evil] = w.serve(&w.metadata)
			w.documents[issuerURL+"/.well-known/oauth-authorization-server"] = func(rw http.ResponseWriter, r *http.Request) {
				http.Redirect(rw, r, evil+"/meta", http.StatusFound)
			}
		}, "redirects to another host"},
		"not an object": {func(w *world) {
			w.documents[issuerURL+"/.well-known/oauth-authorization-server"] = func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("[]")) }
		}, "not a valid JSON object"},
		"an issuer twice": {func(w *world) {
			w.documents[issuerURL+"/.well-known/oauth-authorization-server"] = func(rw http.ResponseWriter, _ *http.Request) {
				_, _ = rw.Write([]byte(`{"issuer":"` + evil + `","issuer":"` + issuerURL + `"}`))
			}
		}, "not a valid JSON object"},
		"a server that fails": {func(w *world) {
			w.documents[issuerURL+"/.well-known/oauth-authorization-server"] = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadGateway) }
		}, "HTTP status 502"},
	} {
		w := newWorld()
		row.change(w)
		e, err := Discover(t.Context(), w.client(), serverURL, []string{w.challenge})
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %+v, %v; want an error with %q", what, e, err, row.want)
		}
	}
}

// TestServers checks URLs of servers: nobody can log in safely at some of them, and plain
// HTTP is accepted for servers on this machine.
func TestServers(t *testing.T) {
	for text, want := range map[string]string{
		"https://h.example/mcp":        "https://h.example/mcp",
		"https://H.EXAMPLE:443/":       "https://h.example",
		"https://h.example/mcp/?a=b":   "https://h.example/mcp/?a=b",
		"http://localhost:80/mcp":      "http://localhost/mcp",
		"http://127.0.0.1:3000/mcp":    "http://127.0.0.1:3000/mcp",
		"http://[::1]:3000":            "http://[::1]:3000",
		"http://h.example/mcp":         "",
		"http://127.0.0.1.example/mcp": "",
		"http://127.1/mcp":             "",
		"https://u:p@h.example/":       "",
		"https://h.example/#x":         "",
		"https://h.example/ x":         "",
		"file:///etc/passwd":           "",
		"":                             "",
		"https://h.example/" + strings.Repeat("a", maxAddress): "",
	} {
		got := ""
		if r, err := parseServer(text); err == nil {
			got = r.String()
		}
		if got != want {
			t.Errorf("%.60s: got %q, want %q", text, got, want)
		}
	}
}

// A server on this machine may have its authorization server on this machine, without TLS.
// Endpoints on other hosts still need TLS.
func TestLocalServer(t *testing.T) {
	const local, issuer = "http://localhost:3000/mcp", "http://127.0.0.1:4000"
	for endpoint, want := range map[string]bool{issuer + "/token": true, "https://login.example/token": true, "http://login.example/token": false} {
		w := newWorld()
		w.resource = object{"resource": local, "authorization_servers": []string{issuer}}
		w.metadata["issuer"], w.metadata["token_endpoint"] = issuer, endpoint
		w.network["http://localhost:3000"] = w.serve(&w.resource)
		w.network[issuer] = w.serve(&w.metadata)
		if _, err := Discover(t.Context(), w.client(), local, nil); (err == nil) != want {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// Without a client from the caller no request is made.
func TestNoOtherClient(t *testing.T) {
	b := openBook(t, "", newClock())
	for what, client := range map[string]*http.Client{"none": nil, "one with the transport of the process": {}} {
		if _, err := Discover(t.Context(), client, serverURL, nil); err == nil {
			t.Errorf("%s: Discover returns no error", what)
		}
		if err := Login(t.Context(), Config{Client: client, Book: b, Server: github}); err == nil {
			t.Errorf("%s: Login returns no error", what)
		}
		if _, err := NewSource(SourceConfig{Client: client, Book: b, Server: github}); err == nil {
			t.Errorf("%s: NewSource returns no error", what)
		}
	}
}
