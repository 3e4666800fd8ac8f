package auth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"belljar.dev/mcp"
)

// MetadataPath is the path at which clients look for the metadata of this server as a
// resource that is protected by OAuth (RFC 9728, 3). They use either this path alone, or
// this path followed by the path of the resource.
const MetadataPath = "/.well-known/oauth-protected-resource"

// metadata is the metadata document (RFC 9728, 2).
type metadata struct {
	Resource string   `json:"resource"`
	Name     string   `json:"resource_name"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported,omitempty"`
	Methods  []string `json:"bearer_methods_supported"`
}

// placeKey is the key for the path of a request's place in its context.
type placeKey struct{}

// InPlace returns a context for a request to a place of this server that has a path of its
// own. A place is a separate resource, which only its own metadata name (RFC 9728, 3.3).
// InPlace does not check that the place exists, so the metadata do not reveal which places
// exist.
func InPlace(ctx context.Context, path string) context.Context {
	return context.WithValue(ctx, placeKey{}, path)
}

// placeIn returns the path of the place that a request is for; empty if it is for the
// server.
func placeIn(ctx context.Context) string {
	path, _ := ctx.Value(placeKey{}).(string)
	return path
}

// resourceAt returns the URL by which clients know a place of the server; the URL of the
// server if the path is empty.
func resourceAt(server, path string) string {
	u, err := url.Parse(server)
	if path == "" || err != nil {
		return server
	}
	return u.Scheme + "://" + u.Host + path
}

// ServeHTTP sends the metadata to every client. Without issuers it answers with 404: a
// client that finds metadata would look for a login that does not exist.
func (a *Authenticator) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	server, t, place := a.resource.Load(), a.trusted.Load(), placeIn(r.Context())
	if server == nil || t == nil || len(t.issuers) == 0 || place == "" && !slices.Contains(pathsOf(*server), r.URL.Path) {
		http.NotFound(rw, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		rw.Header().Set("Allow", "GET, HEAD")
		http.Error(rw, "the metadata can only be read; use GET", http.StatusMethodNotAllowed)
		return
	}
	text, err := json.Marshal(metadata{
		Resource: resourceAt(*server, place), Name: "belljar", Servers: t.order, Scopes: t.scopes, Methods: []string{"header"},
	})
	if err != nil {
		http.Error(rw, "the metadata cannot be written", http.StatusInternalServerError)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Cache-Control", "public, max-age=300")
	if r.Method == http.MethodGet {
		_, _ = rw.Write(text) // if the client has gone, the error does not matter
	}
}

// pathsOf returns the paths of the server's metadata.
func pathsOf(resource string) []string {
	all := []string{MetadataPath, MetadataPath + mcpPath}
	if u, err := url.Parse(resource); err == nil {
		all = append(all, MetadataPath+u.Path)
	}
	return all
}

// mcpPath is the path of the server's endpoint; a proxy may publish it under another path.
const mcpPath = "/mcp"

// metadataURL returns the address at which clients reach the metadata of a resource.
func metadataURL(resource string) string {
	u, err := url.Parse(resource)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + MetadataPath + u.Path
}

// Challenge returns the header WWW-Authenticate for a refused request (RFC 6750, 3; RFC
// 9728, 5.1). It does not say what is wrong with a token.
func (a *Authenticator) Challenge(ctx context.Context, err error) string {
	parts := []string{`Bearer realm="belljar"`}
	add := func(name, value string) { parts = append(parts, name+`="`+value+`"`) } // no value contains a quote
	t, resource := a.trusted.Load(), a.resource.Load()
	var scopes []string
	if t != nil && len(t.issuers) > 0 {
		scopes = t.scopes
	}
	switch lacks, ok := errors.AsType[*mcp.ScopeError](err); {
	case ok:
		scopes = lacks.Scopes
		add("error", "insufficient_scope")
	case !errors.Is(err, mcp.ErrNoToken):
		add("error", "invalid_token")
	}
	if len(scopes) > 0 {
		add("scope", strings.Join(scopes, " "))
	}
	if t != nil && len(t.issuers) > 0 && resource != nil {
		add("resource_metadata", metadataURL(resourceAt(*resource, placeIn(ctx))))
	}
	return strings.Join(parts, ", ")
}
