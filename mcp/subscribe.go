package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// A client is notified that a resource changed if it has subscribed to its URI, by
// resources/subscribe in the legacy era and by subscriptions/listen in the
// modern one. The sdk knows the subscribers of a URI, but notifies all of them.
// Two sessions may have different resources at one URI, so each message carries
// its recipient until it leaves (notifyMiddleware).

const (
	watchMost = 128 // subscriptions of one client
	newsMost  = 4096
)

// forKey is the member of a message that names its recipient, until the message leaves.
const forKey = "belljar.dev/for"

// watches are the subscriptions of all clients. The server's mu guards it.
type watches struct {
	bySDK map[*sdk.ServerSession]*watch
	news  map[news]struct{} // changes to notify about
	busy  bool              // a goroutine sends the notifications
}

// watch is what one client has subscribed to.
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

func newWatches() watches {
	return watches{bySDK: make(map[*sdk.ServerSession]*watch), news: make(map[news]struct{})}
}

// Updated notifies the session's client that the resource changed, if it has
// subscribed to it. It does not wait; changes that follow each other fast are sent
// as one.
func (s *Session) Updated(uri string) { s.server.tell(news{session: s, uri: uri}) }

// Updated notifies the clients of all sessions of a tenant that the resource
// changed. It does not wait; changes that follow each other fast are sent as one.
func (s *Server) Updated(tenant, uri string) { s.tell(news{tenant: tenant, uri: uri}) }

// ResourcesChanged notifies clients that they should list resources again.
func (s *Server) ResourcesChanged() {
	for _, r := range s.families() {
		s.offerResource(r) // adding it again makes the sdk notify clients, and changes nothing else
		return
	}
}

// PromptsChanged notifies clients that they should list prompts again.
func (s *Server) PromptsChanged() { s.sdk.AddPrompt(&sdk.Prompt{Name: ownPrompt}, nil) }

// ownPrompt is a prompt that the sdk has so that it can notify clients of changes;
// no list shows it.
const ownPrompt = "belljar.dev/none"

// tell queues a notification, and makes sure that a goroutine sends it.
func (s *Server) tell(n news) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || len(s.watches.news) >= newsMost || !s.wanted(n) {
		return
	}
	s.watches.news[n] = struct{}{}
	if !s.watches.busy {
		s.watches.busy = true
		s.wg.Go(s.tellAll)
	}
}

// wanted reports whether anybody subscribed to a resource; mu is held.
func (s *Server) wanted(n news) bool {
	for _, w := range s.watches.bySDK {
		if _, ok := w.uris[n.uri]; ok && n.concerns(w.session) {
			return true
		}
	}
	return false
}

// tellAll sends notifications until the queue is empty. A client that does not read
// delays the others for as long as the sdk waits for it.
func (s *Server) tellAll() {
	for {
		s.mu.Lock()
		var next *news
		for n := range s.watches.news {
			next = &n
			break
		}
		if next == nil || s.closing {
			clear(s.watches.news)
			s.watches.busy = false
			s.mu.Unlock()
			return
		}
		delete(s.watches.news, *next)
		s.mu.Unlock()
		//nolint:forbidigo // it belongs to no request, and the sdk bounds it
		err := s.sdk.ResourceUpdated(context.Background(), &sdk.ResourceUpdatedNotificationParams{
			URI: next.uri, Meta: sdk.Meta{forKey: *next},
		})
		if err != nil {
			s.cfg.Log.Debug("an update was not told", "uri", next.uri, "error", err)
		}
	}
}

// notifyMiddleware wraps every message that the sdk sends: a notification about a
// resource goes only to the clients that it is for.
func (s *Server) notifyMiddleware(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if l, ok := ctx.Value(listenKey{}).(*listener); ok && method == methodAcked {
			return ackTasks(ctx, l, req, func(ctx context.Context, req sdk.Request) (sdk.Result, error) { return next(ctx, method, req) })
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
		s.mu.Lock()
		w := s.watches.bySDK[ss]
		s.mu.Unlock()
		if w == nil || !n.concerns(w.session) {
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

// subscribe notes a subscription, of either era.
func (s *Server) subscribe(ctx context.Context, req *sdk.SubscribeRequest) error {
	session, err := s.sessionOf(ctx, req.Session)
	if err != nil {
		return err
	}
	uri := req.Params.URI
	if uri == "" || len(uri) > queryMost {
		return wire.Errorf(wire.InvalidParams, "uri: got %d bytes, want 1 to %d", len(uri), queryMost)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watches.bySDK[req.Session]
	if w == nil {
		w = &watch{session: session, uris: make(map[string]struct{})}
		s.watches.bySDK[req.Session] = w
	}
	if _, known := w.uris[uri]; !known && len(w.uris) >= watchMost {
		return wire.Errorf(wire.InvalidParams, "subscribe to %.200s: %d resources are watched already; unsubscribe from one", uri, watchMost)
	}
	w.uris[uri] = struct{}{}
	return nil
}

func (s *Server) unsubscribe(_ context.Context, req *sdk.UnsubscribeRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watches.bySDK[req.Session]; w != nil {
		delete(w.uris, req.Params.URI)
		if len(w.uris) == 0 {
			delete(s.watches.bySDK, req.Session)
		}
	}
	return nil
}

// unwatch removes the subscriptions of a session's client; mu is held.
func (s *Server) unwatch(session *Session) {
	for ss, w := range s.watches.bySDK {
		if w.session == session {
			delete(s.watches.bySDK, ss)
		}
	}
}
