package mcp

import (
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/origin"
	"belljar.dev/mcp/wire"
)

// The headers of the protocol.
const (
	sessionHeader  = "Mcp-Session-Id"
	revisionHeader = "Mcp-Protocol-Version"
	methodHeader   = "Mcp-Method"
	nameHeader     = "Mcp-Name"
	lastHeader     = "Last-Event-ID"
)

// maxSessionID is the most bytes of a session's id in a request. Ours are shorter.
const maxSessionID = 256

// heldBodies and tenantBodies bound the bytes of all messages in flight from HTTP
// clients. Their unit is one session's bound. They hold for the whole server, or, if it
// has tenants, for each of them.
const (
	heldBodies   = 8
	tenantBodies = 2
)

// Handler serves MCP over Streamable HTTP, both eras on one URL; it is to be
// mounted at /mcp. A legacy client gets a session of its own by initialize.
// Modern requests carry no session, so those of a principal share one Session and its
// limits: a resource that belongs to one of several modern clients needs a handle in
// its arguments.
//
// It answers only requests for loopback names, and none from web pages of other origins,
// unless Config.Guarded is set. With Config.Auth it answers only to those whose tokens
// that knows.
// All Handlers of a Server share its sessions.
func (s *Server) Handler() http.Handler {
	w := &web{server: s, held: make(map[string]int)}
	w.modern = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.adapter.sdk }, &sdk.StreamableHTTPOptions{
		Stateless:           true,
		Logger:              s.cfg.sdkLog(),
		MaxRequestBodyBytes: int64(s.cfg.Limits.Line),
		// The check of package origin is stricter.
		DisableLocalhostProtection:   true,
		PropagateRequestCancellation: true,
	})
	return w
}

// web serves HTTP requests. What it takes from them goes to the guard of a legacy
// session, or in the modern era to directModern or the go-sdk.
type web struct {
	server *Server
	modern http.Handler // the go-sdk's, for modern requests that are no plain calls

	mu   sync.Mutex
	held map[string]int // guarded by mu: bytes of bodies in flight, by tenant
}

// ServeHTTP takes a request through one chain: the name it came by, the page it came
// from, its headers, its caller; then, by its method, its body within limits, its era,
// its session, and the call. Nothing of a body is read before the caller is known.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if !w.server.cfg.Guarded {
		if err := (origin.Guard{}).Check(r); err != nil {
			http.Error(rw, err.Error(), http.StatusForbidden)
			return
		}
	}
	if err := checkHeaders(r.Header); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	r, ok := w.login(rw, r)
	if !ok {
		return
	}
	switch r.Method {
	case http.MethodPost:
		w.post(rw, r)
	case http.MethodGet:
		w.get(rw, r)
	case http.MethodDelete:
		w.delete(rw, r)
	default:
		notAllowed(rw, "GET, POST, DELETE")
	}
}

// notAllowed refuses a method (RFC 9110, 15.5.6).
func notAllowed(rw http.ResponseWriter, allow string) {
	rw.Header().Set("Allow", allow)
	http.Error(rw, "this method is not allowed here", http.StatusMethodNotAllowed)
}

// checkHeaders refuses headers of the protocol that have more than one meaning: a proxy
// before this server may have understood the other one.
func checkHeaders(h http.Header) error {
	for _, name := range []string{sessionHeader, revisionHeader, methodHeader, nameHeader, lastHeader} {
		if len(h[name]) > 1 {
			return errors.New("the header " + name + " is given twice; send it once")
		}
	}
	id := h.Get(sessionHeader)
	if len(id) > maxSessionID || strings.ContainsFunc(id, func(c rune) bool { return c < 0x21 || c > 0x7e }) {
		return errors.New("the header " + sessionHeader + " is not an id of a session")
	}
	return nil
}

// accepts checks the headers that say what a client sends and takes. The texts are
// those of the go-sdk, which clients have seen since the first version.
func accepts(h http.Header) (status int, text string) {
	if media, _, err := mime.ParseMediaType(h.Get("Content-Type")); err != nil || media != "application/json" {
		return http.StatusUnsupportedMediaType, "Content-Type must be 'application/json'"
	}
	if text, events := accepted(h); !text || !events {
		return http.StatusBadRequest, "Accept must contain both 'application/json' and 'text/event-stream'"
	}
	return 0, ""
}

// accepted reports whether a client takes JSON, and streams of events.
func accepted(h http.Header) (text, events bool) {
	for _, value := range h["Accept"] {
		for part := range strings.SplitSeq(value, ",") {
			media, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "application/json", "application/*":
				text = true
			case "text/event-stream", "text/*":
				events = true
			case "*/*":
				text, events = true, true
			}
		}
	}
	return text, events
}

// checkRevision refuses a legacy request whose header names a revision that does not
// exist.
func checkRevision(h http.Header) error {
	revision := h.Get(revisionHeader)
	if revision == "" || slices.Contains(wire.LegacyRevisions, revision) {
		return nil
	}
	return errors.New("Bad Request: Unsupported protocol version (supported versions: " +
		wire.ModernRevision + "," + strings.Join(wire.LegacyRevisions, ",") + ")")
}
