package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

const (
	sessionHeader  = "Mcp-Session-Id"
	revisionHeader = "Mcp-Protocol-Version"
	nameHeader     = "Mcp-Name"
)

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
// It answers only requests for loopback names and Config.Hosts, and none from web
// pages of other origins. With Config.Auth it answers only to those whose tokens that knows.
// Call it once: each Handler has sessions of its own.
func (s *Server) Handler() http.Handler {
	options := sdk.StreamableHTTPOptions{
		Logger:              s.cfg.sdkLog(),
		SessionTimeout:      s.cfg.Limits.Idle,
		MaxRequestBodyBytes: int64(s.cfg.Limits.Line),
		// The Host check here is stricter and knows Config.Hosts.
		DisableLocalhostProtection:   true,
		PropagateRequestCancellation: true,
	}
	server := func(*http.Request) *sdk.Server { return s.adapter.sdk }
	w := &web{server: s, stateful: carryCaller(sdk.NewStreamableHTTPHandler(server, &options)), held: make(map[string]int)}
	options.Stateless = true
	w.stateless = carryCaller(sdk.NewStreamableHTTPHandler(server, &options))
	w.origins = http.NewCrossOriginProtection()
	return w
}

// web is the guard's counterpart for HTTP: the go-sdk's two handlers, one for
// each era, behind the same checks and limits.
type web struct {
	server    *Server
	stateful  http.Handler // legacy
	stateless http.Handler // modern
	origins   *http.CrossOriginProtection

	mu   sync.Mutex
	held map[string]int // guarded by mu: bytes of bodies in flight, by tenant
}

// ServeHTTP checks the caller and the request, waits for its turn, and passes it to
// the sdk's handler of its era.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if !w.knownHost(r.Host) {
		http.Error(rw, "this server does not go by the name in the Host header; connect to a loopback address", http.StatusForbidden)
		return
	}
	if err := w.checkOrigin(r); err != nil {
		http.Error(rw, "web pages of other origins may not use this server: "+err.Error(), http.StatusForbidden)
		return
	}
	r, ok := w.login(rw, r)
	if !ok {
		return
	}
	session, done, ok := w.server.web.use(r.Header.Get(sessionHeader), w.server.cfg.callerOf(r.Context()).owner())
	defer done()
	switch {
	case !ok:
		http.Error(rw, "there is no such session; send initialize", http.StatusNotFound)
	case r.Method == http.MethodPost:
		w.post(rw, r, session)
	case r.Method == http.MethodDelete:
		if session != nil {
			// The sdk waits for running calls; the client said that it wants none.
			session.cancelCalls(context.Canceled)
		}
		w.stateful.ServeHTTP(rw, r)
	default:
		w.stateful.ServeHTTP(rw, r)
	}
}

// knownHost reports whether a Host header names this server. A page of
// evil.example that resolves to 127.0.0.1 sends its own name.
func (w *web) knownHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return true
	}
	return host == "localhost" || slices.Contains(w.server.cfg.Hosts, host)
}

// checkOrigin refuses requests that a browser makes for a page of another origin. The
// standard check lets GET pass, but a GET here opens a stream of a session, so an
// Origin header must name this server.
func (w *web) checkOrigin(r *http.Request) error {
	if err := w.origins.Check(r); err != nil {
		return err
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	_, host, ok := strings.Cut(origin, "://")
	if !ok || !w.knownHost(host) {
		return errors.New("the Origin header names another site")
	}
	return nil
}

// post serves one POST, usually one message, in the session that it names, if any.
func (w *web) post(rw http.ResponseWriter, r *http.Request, session *Session) {
	limit := w.server.cfg.Limits.Line
	body, err := readBody(http.MaxBytesReader(rw, r.Body, int64(limit)))
	if err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			w.refuse(rw, http.StatusRequestEntityTooLarge, wire.RequestIDBefore(body), wire.Legacy,
				wire.Errorf(wire.InvalidRequest, "invalid request: the message is larger than %d bytes", limit))
			return
		}
		http.Error(rw, "read the request: "+err.Error(), http.StatusBadRequest)
		return
	}
	p, bad := w.parse(r, body)
	if bad != nil {
		w.refuse(rw, http.StatusBadRequest, p.id, p.era, bad)
		return
	}
	if bad := p.named(r.Header.Values(nameHeader)); bad != nil {
		w.refuse(rw, http.StatusBadRequest, p.id, p.era, bad)
		return
	}
	if p.method == methodListen && p.era == wire.Modern {
		p.body = listenBody(p.body)
		stream := &streamed{ResponseWriter: rw}
		r = r.WithContext(context.WithValue(r.Context(), notifyKey{}, notifyFunc(stream.notify)))
		rw = stream
	}
	r.Body = io.NopCloser(bytes.NewReader(p.body))
	r.ContentLength = int64(len(p.body))
	w.route(rw, r, session, p)
}

// posted is the request in the body of a POST.
type posted struct {
	body     []byte
	id       []byte // of the first request; nil for none
	method   string // of the first message
	requests int
	era      wire.Era
}

// parse checks a body in the way that the guard checks a line.
func (w *web) parse(r *http.Request, body []byte) (p posted, _ *wire.Error) {
	body = wire.TrimLine(body)
	p.body = body
	if r.Header.Get(revisionHeader) >= wire.ModernRevision {
		p.era = wire.Modern
	}
	limits := w.server.cfg.Limits
	if len(body) == 0 {
		return p, wire.Errorf(wire.InvalidRequest, "invalid request: the body is empty")
	}
	if bad := wire.CheckLine(body, limits.Depth); bad != nil {
		p.id = wire.RequestID(body)
		return p, bad
	}
	each := func(raw []byte) *wire.Error {
		m, bad := wire.ParseMessage(raw)
		if p.method == "" {
			p.method, p.id = m.Method, m.ID
		}
		p.era = max(p.era, m.Era())
		if bad != nil {
			return bad
		}
		if m.IsRequest() {
			p.requests++
			return exactID(m.ID)
		}
		return nil
	}
	if body[0] != '[' {
		return p, each(body)
	}
	if revision := r.Header.Get(revisionHeader); revision != "" && revision != wire.BatchRevision {
		if ids := wire.RequestIDs(body); len(ids) == 1 { // one answer can only have one id
			p.id = ids[0]
		}
		return p, wire.Errorf(wire.InvalidRequest, "invalid request: batches exist in revision %s only", wire.BatchRevision)
	}
	var bad *wire.Error
	wire.Elements(body, func(raw []byte) bool {
		bad = each(bytes.TrimSpace(raw))
		if bad == nil && p.requests > limits.Running {
			bad = wire.Errorf(wire.InvalidRequest, "invalid request: a batch holds at most %d requests", limits.Running)
		}
		return bad == nil
	})
	if bad == nil && p.method == "" && p.requests == 0 {
		bad = wire.Errorf(wire.InvalidRequest, "invalid request: the batch is empty")
	}
	return p, bad
}

// named refuses a request about a task if its header names another task. The sdk
// checks this header of all other requests.
func (p *posted) named(header []string) *wire.Error {
	if len(header) == 0 || !strings.HasPrefix(p.method, "tasks/") {
		return nil
	}
	if id := wire.Text(wire.Member(wire.Member(p.body, "params"), "taskId")); len(header) > 1 || header[0] != id {
		return wire.Errorf(wire.HeaderMismatch, "the header %s and params.taskId must name the same task", nameHeader)
	}
	return nil
}

// exactID refuses a number that the sdk would change: it reads ids as float64 here.
func exactID(id []byte) *wire.Error {
	if id[0] == '"' {
		return nil
	}
	if n, err := strconv.ParseInt(string(id), 10, 64); err != nil || n > 1<<53 || n < -1<<53 {
		return wire.Errorf(wire.InvalidRequest, "invalid request: a number as id must lie within 2^53; use a string")
	}
	return nil
}

// route lets a request into its session: the one that it names, its principal's, or the
// one that it begins.
func (w *web) route(rw http.ResponseWriter, r *http.Request, session *Session, p posted) {
	s := w.server
	ctx := r.Context()
	handler := w.stateful
	switch named := r.Header.Get(sessionHeader) != ""; {
	case p.era == wire.Modern:
		shared, done, bad := s.web.sharedOf(ctx)
		if bad != nil {
			w.busy(rw, http.StatusServiceUnavailable, p, bad)
			return
		}
		defer done()
		session, handler = shared, w.stateless
		ctx = context.WithValue(ctx, sessionKey{}, shared)
	case named:
		if session == nil {
			w.refuse(rw, http.StatusNotFound, p.id, wire.Legacy, s.web.noSession(r.Header.Get(sessionHeader), s.cfg.callerOf(ctx).owner()))
			return
		}
	case p.method != "initialize":
		w.refuse(rw, http.StatusBadRequest, p.id, wire.Legacy,
			wire.Errorf(wire.InvalidRequest, "invalid request: %.64s came without a session; send initialize first", p.method))
		return
	default:
		place, bad := s.web.takePlace(ctx, wire.Text(wire.Member(wire.Member(wire.Member(p.body, "params"), "clientInfo"), "name")))
		if bad != nil {
			w.busy(rw, http.StatusServiceUnavailable, p, bad)
			return
		}
		defer s.web.leavePlace(place)
		ctx = context.WithValue(ctx, webKey{}, place)
	}
	if ctx.Value(webKey{}) == nil {
		ctx = context.WithValue(ctx, webKey{}, struct{}{})
	}
	if session != nil && p.requests > 0 {
		defer session.writing()()
		answer := &receiptWriter{ResponseWriter: rw, out: session.receipts.arrive()} // before its turn
		leave, bad := w.admit(ctx, session, p)
		if bad != nil {
			w.busy(rw, http.StatusTooManyRequests, p, bad)
			return
		}
		defer leave()
		defer answer.done(r.Context())
		rw = answer
		r.Header.Set(outgoingHeader, answer.out.name())
	}
	handler.ServeHTTP(rw, r.WithContext(ctx))
}

// admit waits for a request's turn.
func (w *web) admit(ctx context.Context, session *Session, p posted) (leave func(), _ *wire.Error) {
	if !w.hold(session.tenant, len(p.body)) {
		return nil, wire.OverLimit("bytes_in_flight", queueRetry, "your messages in flight are too large together; try again when one was answered")
	}
	turn := make(chan struct{})
	t := &ticket{n: p.requests, bytes: len(p.body), start: func() { close(turn) }}
	if bad := session.door.ask(t); bad != nil {
		w.hold(session.tenant, -len(p.body))
		return nil, bad
	}
	leave = func() {
		session.door.leave(t)
		w.hold(session.tenant, -len(p.body))
	}
	select {
	case <-turn:
		return leave, nil
	case <-ctx.Done():
	case <-session.Done():
	}
	if !session.door.withdraw(t) {
		return leave, nil // its turn has just come; the sdk sees that ctx has ended
	}
	w.hold(session.tenant, -len(p.body))
	return nil, wire.OverLimit("in_flight", queueRetry, "the request was given up before its turn")
}

// hold reserves n bytes for a message of a tenant, or releases -n.
func (w *web) hold(tenant string, n int) bool {
	s := w.server
	most := s.cfg.Limits.QueueBytes * heldBodies
	if s.cfg.tenanted() {
		most = s.cfg.Limits.QueueBytes * tenantBodies
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > 0 && w.held[tenant]+n > most {
		return false
	}
	if w.held[tenant] += n; w.held[tenant] == 0 {
		delete(w.held, tenant)
	}
	return true
}

// busy refuses a request that may be tried again.
func (w *web) busy(rw http.ResponseWriter, status int, p posted, e *wire.Error) {
	if data, ok := e.Data.(map[string]any); ok {
		if ms, ok := data["retryAfterMs"].(int64); ok {
			rw.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(float64(ms)/1000))))
		}
	}
	w.refuse(rw, status, p.id, p.era, e)
}

func (w *web) refuse(rw http.ResponseWriter, status int, id []byte, in wire.Era, e *wire.Error) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	if _, err := rw.Write(e.Frame(id, in)); err != nil {
		w.server.cfg.Log.Debug("an answer was not sent", "error", err)
	}
}

// readBody is all of a bounded reader.
func readBody(r io.Reader) ([]byte, error) {
	var b bytes.Buffer
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}
