package mcp

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/origin"
	"belljar.dev/mcp/socket"
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

// Paths are where Handler is to be mounted, below one prefix.
var Paths = []string{"/mcp", "/mcp" + ticketPath, ssePath, messagesPath}

// Handler serves MCP over Streamable HTTP, both eras on one URL, over HTTP with SSE if
// Config.SSE is set, and over WebSockets if Config.Sockets is. It is to be mounted at
// Paths. A legacy client gets a session of its own by initialize. Modern requests carry no
// session, so those of a principal share one Session and its limits: a resource that
// belongs to one of several modern clients needs a handle in its arguments.
//
// It answers only requests for loopback names, and none from web pages of other origins,
// unless Config.Guarded is set. With Config.Auth it answers only to those whose tokens
// that knows.
// All Handlers of a Server share its sessions.
func (s *Server) Handler() http.Handler { return s.newWeb() }

func (s *Server) newWeb() *web {
	w := &web{server: s}
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
}

// ServeHTTP takes a request through one chain: the name it came by, the page it came
// from, its headers, its caller; then, by its method, its body within limits, its era,
// its session, and the call. Nothing of a body is read before the caller is known.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r, ok := w.enter(rw, r); ok {
		w.serve(rw, r)
	}
}

// enter checks a request and finds out its caller. If the request is refused, the answer
// has been sent, and ok is false.
func (w *web) enter(rw http.ResponseWriter, r *http.Request) (_ *http.Request, ok bool) {
	if !w.server.cfg.Guarded {
		if err := (origin.Guard{}).Check(r); err != nil {
			http.Error(rw, err.Error(), http.StatusForbidden)
			return nil, false
		}
	}
	if err := checkHeaders(r.Header); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return nil, false
	}
	if ticket, ok := ticketIn(r); ok && w.server.cfg.Sockets {
		return w.loginByTicket(rw, r, ticket)
	}
	return w.login(rw, r)
}

// serve serves a request whose caller is known.
func (w *web) serve(rw http.ResponseWriter, r *http.Request) {
	switch "/" + path.Base(r.URL.Path) {
	case ssePath:
		w.sse(rw, r)
	case messagesPath:
		w.messages(rw, r)
	case ticketPath:
		w.ticket(rw, r)
	default:
		if socket.Asked(r) {
			w.webSocket(rw, r)
			return
		}
		w.streamable(rw, r)
	}
}

// streamable serves Streamable HTTP.
func (w *web) streamable(rw http.ResponseWriter, r *http.Request) {
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

// offered reports whether a path is served and a request has its method. If not, the
// answer has been sent: why says how another way leads to the server.
func offered(rw http.ResponseWriter, r *http.Request, served bool, why, method string) bool {
	switch {
	case !served:
		http.Error(rw, why, http.StatusNotFound)
	case r.Method != method:
		notAllowed(rw, method)
	default:
		return true
	}
	return false
}

// streaming takes a stream that lasts for the caller's tenant, and bounds it by the life of
// the caller's token. If there is no room, the answer has been sent, and ok is false.
// Otherwise the caller calls done at the end of the stream.
//
// The stream is the last answer of its connection. It ends when the server does, at the
// same moment as those of all clients, and each would try its next request on that
// connection. Over HTTP/2 other requests share it, and its end is announced (RFC 9113, 6.8).
func (w *web) streaming(ctx context.Context, rw http.ResponseWriter, r *http.Request, p posted, tenant string) (_ context.Context, done func(), ok bool) {
	closed, bad := w.server.cfg.stream(tenant)
	if bad != nil {
		w.busy(rw, http.StatusTooManyRequests, p, bad)
		return nil, nil, false
	}
	if r.ProtoMajor == 1 {
		rw.Header().Set("Connection", "close")
	}
	ctx, end := w.server.web.callers.whileValid(ctx)
	return ctx, func() {
		end()
		closed()
	}, true
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
	if !isSessionID(h.Get(sessionHeader)) {
		return errors.New("the header " + sessionHeader + " is not an id of a session")
	}
	return nil
}

// isSessionID reports whether a text may be an id of a session. An empty one may.
func isSessionID(id string) bool {
	return len(id) <= maxSessionID && !strings.ContainsFunc(id, func(c rune) bool { return c < 0x21 || c > 0x7e })
}

// accepts checks the headers that say what a client sends and takes. The texts are
// those of the go-sdk, which clients have seen since the first version.
func accepts(h http.Header) (status int, text string) {
	if !isJSON(h) {
		return http.StatusUnsupportedMediaType, notJSON
	}
	if text, events := accepted(h); !text || !events {
		return http.StatusBadRequest, "Accept must contain both 'application/json' and 'text/event-stream'"
	}
	return 0, ""
}

// notJSON is the answer to a body that says to be something else.
const notJSON = "Content-Type must be 'application/json'"

func isJSON(h http.Header) bool {
	const want = "application/json"
	sent := h.Get("Content-Type")
	if sent == want { // as most clients write it
		return true
	}
	media, _, err := mime.ParseMediaType(sent)
	return err == nil && media == want
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
