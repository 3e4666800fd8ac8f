package mcp

import (
	"context"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// A client is notified that a resource changed if it has subscribed to its URI, by
// resources/subscribe in the legacy era and by subscriptions/listen in the
// modern one. The sdk knows the subscribers of a URI, but notifies all of them.
// Two sessions may have different resources at one URI, so each message carries
// its recipient until it leaves (notifyMiddleware).

const (
	watchMost = 128 // most subscriptions of one client
	newsMost  = 4096
)

// forKey is the member of a message that names its recipient, until the message leaves.
const forKey = "belljar.dev/for"

// subscriptions contains the URIs that clients have subscribed to, and the changes to
// notify them about.
type subscriptions struct {
	cfg      *Config
	sessions *sessionTable
	sdk      *sdk.Server

	mu    sync.Mutex
	bySDK map[*sdk.ServerSession]*watch // guarded by mu
	news  map[news]struct{}             // guarded by mu: changes to notify about
	busy  bool                          // guarded by mu: a goroutine sends the notifications
}

func newSubscriptions(cfg *Config, sessions *sessionTable, server *sdk.Server) *subscriptions {
	return &subscriptions{cfg: cfg, sessions: sessions, sdk: server, bySDK: make(map[*sdk.ServerSession]*watch), news: make(map[news]struct{})}
}

// watch contains the subscriptions of one client.
type watch struct {
	session *Session
	uris    map[string]struct{}
}

// news is a resource that changed, for a session or, if session is nil, for
// all sessions of a tenant.
type news struct {
	session *Session
	tenant  string
	uri     string
}

func (n news) concerns(s *Session) bool {
	if n.session != nil {
		return n.session == s
	}
	return n.tenant == s.tenant
}

// Updated notifies the session's client that the resource changed, if it has
// subscribed to it. It does not wait; changes that follow each other fast are sent
// as one.
func (s *Session) Updated(uri string) { s.server.subscriptions.notify(news{session: s, uri: uri}) }

// Updated notifies the clients of all sessions of a tenant that the resource
// changed. It does not wait; changes that follow each other fast are sent as one.
func (s *Server) Updated(tenant, uri string) { s.subscriptions.notify(news{tenant: tenant, uri: uri}) }

// ResourcesChanged notifies clients that they should list resources again.
func (s *Server) ResourcesChanged() {
	for _, r := range s.resources.all() {
		s.adapter.offerResource(r) // adding it again makes the sdk notify clients, and changes nothing else
		return
	}
}

// PromptsChanged notifies clients that they should list prompts again.
func (s *Server) PromptsChanged() { s.adapter.sdk.AddPrompt(&sdk.Prompt{Name: ownPrompt}, nil) }

// ownPrompt is a prompt that the sdk has so that it can notify clients of changes;
// no list shows it.
const ownPrompt = "belljar.dev/none"

// notify queues a notification, and makes sure that a goroutine sends it.
func (subs *subscriptions) notify(n news) {
	subs.mu.Lock()
	defer subs.mu.Unlock()
	if subs.sessions.over() || len(subs.news) >= newsMost || !subs.wanted(n) {
		return
	}
	if !subs.busy {
		if subs.sessions.enter() != nil {
			return
		}
		subs.busy = true
		go func() {
			defer subs.sessions.wg.Done()
			subs.sendAll()
		}()
	}
	subs.news[n] = struct{}{}
}

// wanted reports whether anybody subscribed to a resource; the caller holds mu.
func (subs *subscriptions) wanted(n news) bool {
	for _, w := range subs.bySDK {
		if _, ok := w.uris[n.uri]; ok && n.concerns(w.session) {
			return true
		}
	}
	return false
}

// sendAll sends notifications until the queue is empty. It sends them one after the other,
// so no transport may wait for its client (lines.Send, sse.Stream.Notify, sse.Aside).
func (subs *subscriptions) sendAll() {
	for {
		subs.mu.Lock()
		var next *news
		for n := range subs.news {
			next = &n
			break
		}
		if next == nil || subs.sessions.over() {
			clear(subs.news)
			subs.busy = false
			subs.mu.Unlock()
			return
		}
		delete(subs.news, *next)
		subs.mu.Unlock()
		//nolint:forbidigo // the notification does not belong to a request, and the sdk bounds its time
		err := subs.sdk.ResourceUpdated(context.Background(), &sdk.ResourceUpdatedNotificationParams{
			URI: next.uri, Meta: sdk.Meta{forKey: *next},
		})
		if err != nil {
			subs.cfg.Log.Debug("a notification of an update was not sent", "uri", next.uri, "error", err)
		}
	}
}

// add subscribes the client of a session to a resource.
func (subs *subscriptions) add(ss *sdk.ServerSession, session *Session, uri string) error {
	subs.mu.Lock()
	defer subs.mu.Unlock()
	w := subs.bySDK[ss]
	if w == nil {
		w = &watch{session: session, uris: make(map[string]struct{})}
		subs.bySDK[ss] = w
	}
	if _, known := w.uris[uri]; !known && len(w.uris) >= watchMost {
		return wire.Errorf(wire.InvalidParams, "subscribe to %.200s: %d resources are watched already; unsubscribe from one", uri, watchMost)
	}
	w.uris[uri] = struct{}{}
	return nil
}

func (subs *subscriptions) remove(ss *sdk.ServerSession, uri string) {
	subs.mu.Lock()
	defer subs.mu.Unlock()
	if w := subs.bySDK[ss]; w != nil {
		delete(w.uris, uri)
		if len(w.uris) == 0 {
			delete(subs.bySDK, ss)
		}
	}
}

// of returns the URIs that the client of a session has subscribed to, at most maxKept bytes
// of them.
func (subs *subscriptions) of(session *Session) (uris []string) {
	subs.mu.Lock()
	defer subs.mu.Unlock()
	for _, w := range subs.bySDK {
		if w.session == session {
			uris = append(uris, sortedKeys(w.uris)...)
		}
	}
	size := 0
	for i, uri := range uris {
		if size += len(uri); size > maxKept {
			return uris[:i]
		}
	}
	return uris
}

// concern reports whether a change concerns a client that has subscriptions.
func (subs *subscriptions) concern(ss *sdk.ServerSession, n news) bool {
	subs.mu.Lock()
	defer subs.mu.Unlock()
	w := subs.bySDK[ss]
	return w != nil && n.concerns(w.session)
}

// forget removes the subscriptions of a session's client.
func (subs *subscriptions) forget(session *Session) {
	subs.mu.Lock()
	defer subs.mu.Unlock()
	for ss, w := range subs.bySDK {
		if w.session == session {
			delete(subs.bySDK, ss)
		}
	}
}

// notifyMiddleware wraps every message that the sdk sends: a notification about a
// resource or about the list of tools goes only to the clients that it is for.
func (a *adapter) notifyMiddleware(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if l, ok := ctx.Value(listenKey{}).(*listener); ok && method == methodAcked {
			return ackTasks(ctx, l, req, func(ctx context.Context, req sdk.Request) (sdk.Result, error) { return next(ctx, method, req) })
		}
		if ss, ok := req.GetSession().(*sdk.ServerSession); ok && method == toolsChanged && !a.server.tools.changes.news(ss) {
			return nil, nil
		}
		told, ok := req.GetParams().(*sdk.ResourceUpdatedNotificationParams)
		if !ok {
			return next(ctx, method, req)
		}
		n, ours := told.Meta[forKey].(news)
		ss, server := req.GetSession().(*sdk.ServerSession)
		if !ours || !server {
			return next(ctx, method, req)
		}
		if !a.server.subscriptions.concern(ss, n) {
			return nil, nil
		}
		params := &sdk.ResourceUpdatedNotificationParams{URI: n.uri}
		for key, value := range told.Meta {
			if key == forKey {
				continue
			}
			if params.Meta == nil {
				params.Meta = sdk.Meta{}
			}
			params.Meta[key] = value
		}
		return next(ctx, method, &sdk.ServerRequest[*sdk.ResourceUpdatedNotificationParams]{Session: ss, Params: params})
	}
}

// subscribe notes a subscription of either era.
func (a *adapter) subscribe(ctx context.Context, req *sdk.SubscribeRequest) error {
	session, err := a.sessionOf(ctx)
	if err != nil {
		return err
	}
	uri := req.Params.URI
	if uri == "" || len(uri) > queryMost {
		return wire.Errorf(wire.InvalidParams, "uri: got %d bytes, want 1 to %d", len(uri), queryMost)
	}
	defer a.server.web.changed(session)
	return a.server.subscriptions.add(req.Session, session, uri)
}

func (a *adapter) unsubscribe(ctx context.Context, req *sdk.UnsubscribeRequest) error {
	session, err := a.sessionOf(ctx)
	if err != nil {
		return err
	}
	defer a.server.web.changed(session)
	a.server.subscriptions.remove(req.Session, req.Params.URI)
	return nil
}
