package mcp

import (
	"net/http"
	"path"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/origin"
	"belljar.dev/mcp/socket"
	"belljar.dev/mcp/wire"
)

// Paths are the paths at which Handler must be mounted, below one prefix.
var Paths = []string{"/mcp", "/mcp" + ticketPath, ssePath, messagesPath}

// Handler serves MCP over Streamable HTTP, with both eras on one URL, over HTTP with SSE if
// Config.SSE is set, and over WebSockets if Config.Sockets is set. It must be mounted at
// Paths. A legacy client gets a session of its own by initialize. Modern requests carry no
// session, so the modern requests of a principal share one Session and its limits: a
// resource that belongs to one of several modern clients needs a handle in its arguments.
//
// Unless Config.Guarded is set, the handler answers only requests for loopback names, and
// refuses requests from web pages of other origins. With Config.Auth, it answers only
// callers whose tokens Config.Auth accepts. All Handlers of a Server share its sessions.
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

// web serves HTTP requests. The messages in them go to the guard of a legacy session, or
// in the modern era to modernPost.call or the go-sdk.
type web struct {
	server *Server
	modern http.Handler // the go-sdk's handler, for modern requests that are not plain calls
}

// ServeHTTP takes a request through one chain: the name and the page from which it came,
// its headers, its caller; then its method, its body within limits, its era, its session,
// and the call. It reads nothing of a body before the caller is known.
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

// post serves one POST. It usually contains one message, for the session that it names, if
// any.
func (w *web) post(rw http.ResponseWriter, r *http.Request) {
	p, ok := w.readPost(rw, r)
	if !ok {
		return
	}
	tenant := w.server.cfg.callerOf(r.Context()).Tenant
	if !w.server.web.inFlight.hold(tenant, len(p.body)) {
		w.busy(rw, http.StatusTooManyRequests, p, bytesInFlight())
		return
	}
	defer w.server.web.inFlight.hold(tenant, -len(p.body))
	if p.era == wire.Modern {
		w.serveModern(rw, r, p)
		return
	}
	w.serveLegacy(rw, r, p)
}
