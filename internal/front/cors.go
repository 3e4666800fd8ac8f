package front

import (
	"net/http"
	"slices"
	"strings"
)

// Methods and headers that pages of other origins may send and read (Fetch standard, CORS
// protocol). The headers are those of both eras of MCP.
var (
	corsMethods = []string{http.MethodGet, http.MethodPost, http.MethodDelete}
	corsHeaders = []string{
		"Authorization", "Content-Type", "Accept", "Last-Event-ID", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name",
		"Traceparent", "Tracestate",
	}
	corsExposed = []string{"Mcp-Session-Id", "Www-Authenticate", "Retry-After"}
)

// preflight allows a page that the guard has accepted to read the answer. If the request is
// a preflight request, preflight answers it, and done is true. Credentials of the browser
// are never allowed: a token is sent in a header, so the page must know the token.
func (f *Front) preflight(w http.ResponseWriter, r *http.Request) (done bool) {
	w.Header().Add("Vary", "Origin")
	page := r.Header.Get("Origin")
	asks := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
	if page == "" {
		return false
	}
	if asks && r.Header.Get("Access-Control-Request-Private-Network") != "" {
		// The page comes from a less private network than this server.
		f.manner.Refuse(w, "pages of a public network may not use this server", http.StatusForbidden)
		return true
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", page)
	if !asks {
		h.Set("Access-Control-Expose-Headers", strings.Join(corsExposed, ", "))
		return false
	}
	h.Set("Access-Control-Allow-Methods", strings.Join(corsMethods, ", "))
	h.Set("Access-Control-Allow-Headers", strings.Join(slices.Concat(corsHeaders, paramHeaders(r)), ", "))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// paramHeaders returns those headers in a preflight request that repeat arguments of a
// call. The tools of upstreams define their names.
func paramHeaders(r *http.Request) (names []string) {
	for name := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		if strings.HasPrefix(name, "Mcp-Param-") {
			names = append(names, name)
		}
	}
	return names
}
