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

// MetadataPath is where clients look for the metadata of this server as a resource that is
// protected by OAuth (RFC 9728, 3): at the path itself and at the path with that of the
// resource behind it. Clients differ in which of the two they ask for.
const MetadataPath = "/.well-known/oauth-protected-resource"

// metadata is the document (RFC 9728, 2).
type metadata struct {
	Resource string   `json:"resource"`
	Name     string   `json:"resource_name"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported,omitempty"`
	Methods  []string `json:"bearer_methods_supported"`
}

// placeKey is where the context of a request has the path of its place.
type placeKey struct{}

// InPlace returns a context for a request to a place of this server that has a path of its
// own: a resource beside the server, which only its own metadata name (RFC 9728, 3.3). Whether
// there is such a place does not matter, so nobody learns that from the metadata.
func InPlace(ctx context.Context, path string) context.Context {
	return context.WithValue(ctx, placeKey{}, path)
}

// placeIn returns the path of the place that a request is for; empty for the server.
func placeIn(ctx context.Context) string {
	path, _ := ctx.Value(placeKey{}).(string)
	return path
}

// resourceAt is what clients call a place of the server; the server itself if the path is
// empty.
func resourceAt(server, path string) string {
	u, err := url.Parse(server)
	if path == "" || err != nil {
		return server
	}
	return u.Scheme + "://" + u.Host + path
}

// ServeHTTP answers with the metadata, to everybody. Without issuers the answer is 404: a
// client that finds metadata would look for a login that does not exist.
func (a *Authenticator) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	server, t, place := a.resource.Load(), a.trusted.Load(), placeIn(r.Context())
	if server == nil || t == nil || len(t.issuers) == 0 || place == "" && !slices.Contains(pathsOf(*server), r.URL.Path) {
		http.NotFound(rw, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		rw.Header().Set("Allow", "GET, HEAD")
		http.Error(rw, "the metadata can be read, and nothing else", http.StatusMethodNotAllowed)
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
		_, _ = rw.Write(text) // a client that has gone needs none
	}
}

// pathsOf are the paths of the metadata of the server.
func pathsOf(resource string) []string {
	all := []string{MetadataPath, MetadataPath + mcpPath}
	if u, err := url.Parse(resource); err == nil {
		all = append(all, MetadataPath+u.Path)
	}
	return all
}

// mcpPath is where the server is mounted; a proxy may show it elsewhere.
const mcpPath = "/mcp"

// metadataURL is the address of the metadata of a resource, at which clients reach it.
func metadataURL(resource string) string {
	u, err := url.Parse(resource)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + MetadataPath + u.Path
}

// Challenge is the header WWW-Authenticate of the refusal of a request (RFC 6750, 3; RFC 9728,
// 5.1). It does not say what is wrong with a token.
func (a *Authenticator) Challenge(ctx context.Context, err error) string {
	parts := []string{`Bearer realm="belljar"`}
	add := func(name, value string) { parts = append(parts, name+`="`+value+`"`) } // no value has quotes
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
