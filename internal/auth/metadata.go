package auth

import (
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

// ServeHTTP answers with the metadata, to everybody. Without issuers there are none: a client
// that finds them would look for a login that does not exist.
func (a *Authenticator) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	resource, t := a.resource.Load(), a.trusted.Load()
	if resource == nil || t == nil || len(t.issuers) == 0 || !slices.Contains(pathsOf(*resource), r.URL.Path) {
		http.NotFound(rw, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		rw.Header().Set("Allow", "GET, HEAD")
		http.Error(rw, "the metadata can be read, and nothing else", http.StatusMethodNotAllowed)
		return
	}
	text, err := json.Marshal(metadata{
		Resource: *resource, Name: "belljar", Servers: t.order, Scopes: t.scopes, Methods: []string{"header"},
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

// pathsOf are the paths of the metadata of a resource.
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

// Challenge is the header WWW-Authenticate of a refusal (RFC 6750, 3; RFC 9728, 5.1). What
// is wrong with a token it does not say.
func (a *Authenticator) Challenge(err error) string {
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
		add("resource_metadata", metadataURL(*resource))
	}
	return strings.Join(parts, ", ")
}
