package mcp

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// listFresh is how long a client may cache one of our lists, in milliseconds. The client is
// notified of a change before that time (Server.Reloaded).
const listFresh = 5 * 60 * 1000

// adapter stands between the go-sdk and the parts of a server: it turns the sdk's
// requests into ours, and our answers into the sdk's.
type adapter struct {
	server *Server
	sdk    *sdk.Server
}

// newAdapter makes the go-sdk's server with our middleware in it.
func newAdapter(s *Server) *adapter {
	a := &adapter{server: s}
	capabilities := &sdk.ServerCapabilities{
		Prompts:      &sdk.PromptCapabilities{ListChanged: true},
		Resources:    &sdk.ResourceCapabilities{ListChanged: true, Subscribe: true},
		Experimental: map[string]any{methodSearch: map[string]any{}, structuredKey: map[string]any{}},
		Extensions:   map[string]any{tasksExtension: map[string]any{}},
		Logging:      &sdk.LoggingCapabilities{}, // legacy clients set a level
	}
	server := sdk.NewServer(
		&sdk.Implementation{Name: s.cfg.Name, Version: s.cfg.Version},
		&sdk.ServerOptions{
			Instructions:       s.cfg.Instructions,
			Logger:             s.cfg.sdkLog(),
			Capabilities:       capabilities,
			GetSessionID:       newSessionID,
			CompletionHandler:  a.complete,
			SubscribeHandler:   a.subscribe,
			UnsubscribeHandler: a.unsubscribe,
			SetCacheable: func(_ context.Context, req sdk.Request, c *sdk.Cacheable) {
				c.CacheScope = private
				switch req.(type) {
				case *sdk.ListToolsRequest, *sdk.ListResourceTemplatesRequest, *sdk.ListPromptsRequest:
					c.TTLMs = listFresh
				}
			},
		})
	server.AddReceivingMiddleware(a.middleware)
	server.AddTool(sdkTool(Tool{Name: stubTool}), a.call)
	server.AddSendingMiddleware(a.notifyMiddleware)
	a.sdk = server
	a.addSearch()
	a.addTasks()
	return a
}

// offerTool makes the go-sdk list a tool and route its calls to us. If the sdk has the
// tool already, it notifies clients and changes nothing else.
func (a *adapter) offerTool(info Tool) { a.sdk.AddTool(sdkTool(info), a.call) }

func (c *Config) sdkLog() *slog.Logger { return slog.New(warnings{c.Log.Handler()}) }

// warnings is a log handler that passes on only the warnings and errors of the sdk. The sdk
// otherwise logs several lines for each connection.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

// middleware wraps every method that the sdk handles. It gives errors their codes, and
// limits the damage of a handler's panic to its request.
func (a *adapter) middleware(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (res sdk.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				a.server.cfg.Log.Error("a handler panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
				res, err = nil, forSDK(wire.Errorf(wire.InternalError, "internal error in %s; the server's log states the cause", method), wire.Legacy)
			}
		}()
		ctx = a.withSource(ctx, req)
		if method == "initialize" {
			if err := a.greet(ctx, req); err != nil {
				return nil, forSDK(wire.Errorf(wire.InternalError, "%v", err), wire.Legacy)
			}
		}
		serve := next
		if r, ok := req.(*sdk.CallToolRequest); ok {
			tenant := a.tenantOf(ctx)
			t, known := a.server.tools.find(tenant, r.Params.Name)
			if session, err := a.sessionOf(ctx); err == nil && !known {
				t, known = a.server.gate.find(ctx, session, r.Params.Name)
			}
			switch {
			case !known && a.server.cfg.Suite == nil:
				hides := func(t *tool) bool { return a.hidesFrom(a.server.cfg.callerOf(ctx), t) }
				return nil, forSDK(a.server.tools.unknown(tenant, r.Params.Name, hides), eraOf(req))
			case known && t.upstream != nil:
				serve = a.stubbed(next)
			}
		}
		res, err = a.ours(ctx, req, serve)
		if res == nil && err == nil {
			res, err = serve(ctx, method, req)
		}
		if read, ok := res.(*sdk.ReadResourceResult); ok && err == nil {
			res = withEmptyText(read)
		}
		if err == nil {
			a.noteLevel(ctx, req)
		}
		return res, wireCode(err, eraOf(req), method)
	}
}

// noteLevel notes the level that a client has set for log messages.
func (a *adapter) noteLevel(ctx context.Context, req sdk.Request) {
	p, ok := req.GetParams().(*sdk.SetLoggingLevelParams) // legacy clients send it
	if !ok || p == nil {
		return
	}
	if session, err := a.sessionOf(ctx); err == nil {
		session.setLogLevel(string(p.Level))
		a.server.web.changed(session)
	}
}

// ours answers a request about what a session has, which the sdk does not know. It
// returns nil without an error for a request that the sdk must answer.
func (a *adapter) ours(ctx context.Context, req sdk.Request, next sdk.MethodHandler) (sdk.Result, error) {
	var answer func(*Session) (sdk.Result, error)
	switch r := req.(type) {
	case *sdk.ListToolsRequest:
		return a.listTools(ctx, r, next)
	case *sdk.CallToolRequest:
		return a.callDeferring(ctx, r, next)
	case *sdk.SubscriptionsListenRequest:
		return a.listen(ctx, r, next)
	case *sdk.ListResourcesRequest:
		answer = func(session *Session) (sdk.Result, error) { return a.server.resources.list(ctx, session, r) }
	case *sdk.ListResourceTemplatesRequest:
		return a.listTemplates(ctx, r, next)
	case *sdk.ReadResourceRequest:
		remote := a.server.resources.remoteOf(r.Params.URI)
		if remote == nil {
			return nil, nil //nolint:nilnil // nil means that the sdk answers
		}
		answer = func(session *Session) (sdk.Result, error) { return a.readRemote(ctx, remote, session, r) }
	case *sdk.ListPromptsRequest:
		answer = func(session *Session) (sdk.Result, error) { return a.server.prompts.list(ctx, session, r) }
	case *sdk.GetPromptRequest:
		answer = func(session *Session) (sdk.Result, error) {
			res, err := a.server.prompts.get(ctx, session, r)
			switch {
			case err != nil:
				return nil, err
			case res == nil && a.server.cfg.Suite != nil && r.Params.Name != ownPrompt:
				return nil, nil //nolint:nilnil // the suite may have a prompt of this name
			case res == nil:
				return nil, a.server.prompts.unknown(ctx, session, r.Params.Name)
			}
			return res, nil
		}
	default:
		return nil, nil //nolint:nilnil // nil means that the sdk answers
	}
	session, err := a.sessionOf(ctx)
	if err != nil {
		return nil, err
	}
	return answer(session)
}

func wireCode(err error, in wire.Era, method string) error {
	if own, ok := errors.AsType[*wire.Error](err); ok {
		return forSDK(own, in)
	}
	var theirs *jsonrpc.Error
	if method == "resources/read" && errors.As(err, &theirs) &&
		theirs.Code == jsonrpc.CodeInvalidParams && theirs.Message == "Resource not found" {
		// The sdk uses the modern code in every era.
		return &jsonrpc.Error{Code: wire.NotFound.Code(in), Message: "resource not found", Data: theirs.Data}
	}
	if err != nil && method == "initialize" && !errors.As(err, &theirs) {
		// The sdk's error "duplicate initialize" would be sent with the code 0.
		return forSDK(wire.Errorf(wire.InvalidRequest, "invalid request: %v", err), in)
	}
	if err != nil && !errors.As(err, &theirs) {
		return forSDK(wire.Errorf(wire.InternalError, "%v", err), in) // the error would go out with the code 0
	}
	return err
}

// greet notes which client sent an initialize request.
func (a *adapter) greet(ctx context.Context, req sdk.Request) error {
	session, err := a.sessionOf(ctx)
	if err != nil {
		return err
	}
	if p, ok := req.GetParams().(*sdk.InitializeParams); ok {
		session.meet(p)
	}
	if ss, ok := req.GetSession().(*sdk.ServerSession); ok {
		a.server.tools.changes.enter(ss, session)
	}
	return nil
}

// withSource returns the context of a request with the request's source, which the sdk does
// not pass on.
func (a *adapter) withSource(ctx context.Context, req sdk.Request) context.Context {
	session, err := a.sessionOf(ctx)
	if err != nil {
		return ctx
	}
	if out := session.receipts.in(req.GetExtra()); out != nil && out.via != nil {
		return withOutlet(ctx, out.via)
	}
	return ctx
}

// stubTool is the one tool in the go-sdk that stands for all tools of upstreams. The sdk
// notifies clients when a tool is added, so adding the stub again notifies them of a
// change. No list shows the stub, and no call of its name finds a tool.
const stubTool = "belljar.dev.stub"

// stubKey is the context key for the tool's name in a call of the stub, as the client wrote
// it.
type stubKey struct{}

// stubbed wraps next so that a call of an upstream's tool goes to the stub, the only one of
// these tools that the sdk knows.
func (a *adapter) stubbed(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		r, ok := req.(*sdk.CallToolRequest)
		if !ok {
			return next(ctx, method, req)
		}
		params := *r.Params
		params.Name = stubTool
		ctx = context.WithValue(ctx, stubKey{}, r.Params.Name)
		return next(ctx, method, &sdk.CallToolRequest{Session: r.Session, Params: &params, Extra: r.Extra})
	}
}

// call answers a tools/call that came through the go-sdk, because readCall left it to the
// sdk.
func (a *adapter) call(ctx context.Context, req *sdk.CallToolRequest) (_ *sdk.CallToolResult, err error) {
	session, err := a.sessionOf(ctx)
	if err != nil {
		return nil, err
	}
	s, meta, name := a.server, req.Params.Meta, req.Params.Name
	if behind, ok := ctx.Value(stubKey{}).(string); ok && name == stubTool {
		name = behind
	}
	c := toolCall{name: name, args: req.Params.Arguments, patience: s.cfg.Patience, structured: s.cfg.structures(session, meta), input: inputOf(req)}
	if depth, ok := meta[wire.DepthKey].(float64); ok {
		c.depth = int(depth)
	}
	later := deferredIn(ctx)
	if later != nil {
		c.patience = 0 // the client does not wait
	}
	if parent, ok := meta["traceparent"].(string); ok {
		state, _ := meta["tracestate"].(string)
		c.parent = readTraceParent(parent, state)
	}
	// the client cancelled the call meanwhile, or gets the answer later
	if c.out = session.receipts.in(req.Extra); c.out == nil {
		c.out = &outgoing{to: &session.receipts, over: true}
	}
	defer func() {
		if err != nil {
			c.out.Done(false)
		}
	}()
	to, _ := ctx.Value(outletKey{}).(outlet)
	level, _ := meta[wire.LevelKey].(string)
	c.logs = logsOf(session, to, eraOf(req) == wire.Modern, level)
	stop := func() {}
	if token := meta["progressToken"]; token != nil {
		c.progress = a.progress(ctx, req.Session, session, token, later)
		if ctx.Value(outletKey{}) == nil { // the sdk writes the progress, and waits for the client
			c.progress, stop = pumped(c.progress)
		}
	}
	res, err := s.gate.call(ctx, session, c)
	stop() // all progress is sent before the answer
	if err != nil {
		return nil, err
	}
	sent, err := sdkResult(res, s.cfg.Limits.Response)
	if err == nil && res.Task != "" && eraOf(req) == wire.Modern {
		if sent.Meta == nil {
			sent.Meta = sdk.Meta{}
		}
		sent.Meta[relatedKey] = map[string]any{"taskId": res.Task}
	}
	return sent, err
}

// progress returns a function that sends the progress of a call through the go-sdk, as long
// as the client has no handle for the answer.
func (a *adapter) progress(ctx context.Context, ss *sdk.ServerSession, session *Session, token any, later *deferred) progressFunc {
	return func(done, total float64, message string) {
		if later.told() {
			return
		}
		err := ss.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: total, Message: message})
		if err != nil {
			a.server.cfg.Log.Debug("progress was not sent", "session", session.id, "error", err)
		}
	}
}

// pumped runs p in its own goroutine, for transports where sending waits for the client.
// While a report is being sent, the newest other report waits and older ones are dropped.
// stop sends the waiting report and ends the goroutine.
func pumped(p progressFunc) (_ progressFunc, stop func()) {
	type report struct {
		done, total float64
		message     string
	}
	next := make(chan report, 1)
	var mu sync.Mutex // orders the two steps of replacing a report
	var wg sync.WaitGroup
	ended := false
	wg.Go(func() {
		for r := range next {
			p(r.done, r.total, r.message)
		}
	})
	send := func(done, total float64, message string) {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			return
		}
		select {
		case <-next:
		default:
		}
		next <- report{done, total, message}
	}
	return send, func() {
		mu.Lock()
		ended = true
		close(next)
		mu.Unlock()
		wg.Wait()
	}
}
