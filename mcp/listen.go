package mcp

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// A client subscribes to tasks with subscriptions/listen and taskIds, and gets
// notifications/tasks (tasks extension, "Task Status Notifications"). The sdk knows neither
// of the two. The transports put the ids into the request's _meta (withTaskIDs); the
// notifications are sent with the transport's notify, not through the sdk.

const (
	methodListen = "subscriptions/listen"
	methodAcked  = "notifications/subscriptions/acknowledged"
	methodTasks  = "notifications/tasks"
)

// taskIDsKey is the key of the task ids in the _meta of a listen request after it was
// received.
const taskIDsKey = "belljar.dev/taskIds"

type (
	// notifyKey is the key of the notifyFunc in the context of a request.
	notifyKey struct{}
	// listenKey is the key of the *listener in the context of a listen request.
	listenKey struct{}
)

// notifyFunc sends a notification on the stream of a request.
type notifyFunc func(*jsonrpc.Request) error

// listener is a subscription to tasks.
type listener struct {
	session *Session
	meta    sdk.Meta // _meta of its request
	ids     []string
	acked   chan any      // gets the subscription's id when the subscription is acknowledged
	wake    chan struct{} // gets a token when a task has changed

	changed map[string]bool // guarded by deferrals.mu: true for each task that has changed
}

// TaskChanged notifies the clients that have subscribed to a task. It does not wait.
// Several changes in a short time may be sent as one.
func (s *Server) TaskChanged(id string) { s.deferrals.changed(id) }

// TaskChanged calls [Server.TaskChanged] of the session's server.
func (s *Session) TaskChanged(id string) { s.server.deferrals.changed(id) }

// listen answers a listen request.
func (a *adapter) listen(ctx context.Context, req *sdk.SubscriptionsListenRequest, next sdk.MethodHandler) (sdk.Result, error) {
	if session, err := a.sessionOf(ctx); err == nil {
		a.server.tools.changes.enter(req.Session, session)
		defer a.server.tools.changes.leave(req.Session)
	}
	ids, _ := req.Params.Meta[taskIDsKey].([]any)
	if ids == nil {
		return next(ctx, methodListen, req)
	}
	if err := declares(req.Params.Meta); err != nil {
		return nil, err
	}
	if len(ids) > watchMost {
		return nil, wire.Errorf(wire.InvalidParams, "notifications.taskIds: got %d, want at most %d", len(ids), watchMost)
	}
	session, err := a.sessionOf(ctx)
	if err != nil {
		return nil, err
	}
	notify, _ := ctx.Value(notifyKey{}).(notifyFunc)
	l := &listener{session: session, meta: req.Params.Meta, acked: make(chan any, 1), wake: make(chan struct{}, 1), changed: make(map[string]bool)}
	for _, raw := range ids {
		id, _ := raw.(string)
		if _, _, err := a.server.deferrals.find(ctx, session, id, nil); err == nil && notify != nil {
			l.ids = append(l.ids, id)
			l.changed[id] = true // its present state is sent first
		}
	}
	l.wake <- struct{}{}
	defer a.server.deferrals.listen(l)()
	var telling sync.WaitGroup
	defer telling.Wait()
	ctx, cancel := context.WithCancel(context.WithValue(ctx, listenKey{}, l))
	defer cancel()
	telling.Go(func() { a.server.deferrals.notifyAll(ctx, l, notify) })
	res, err := next(ctx, methodListen, req)
	if err == nil && len(l.ids) > 0 {
		<-ctx.Done() // without any other subscription, the sdk would not wait
	}
	return res, err
}

// listen adds a subscription. done removes it.
func (ds *deferrals) listen(l *listener) (done func()) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.listening[l] = struct{}{}
	return func() {
		ds.mu.Lock()
		defer ds.mu.Unlock()
		delete(ds.listening, l)
	}
}

// notifyAll sends notifications about the tasks of a subscription until ctx ends.
func (ds *deferrals) notifyAll(ctx context.Context, l *listener, notify notifyFunc) {
	var subscription any
	select {
	case subscription = <-l.acked:
	case <-ctx.Done():
		return
	}
	for {
		select {
		case <-l.wake:
		case <-ctx.Done():
			return
		}
		for _, id := range l.ids {
			ds.mu.Lock()
			changed := l.changed[id]
			l.changed[id] = false
			ds.mu.Unlock()
			if !changed {
				continue
			}
			_, t, err := ds.find(ctx, l.session, id, l.meta)
			if err != nil {
				continue // the task is no longer kept; tasks/get reports that
			}
			if err := notify(taskNotification(t, subscription)); err != nil {
				ds.cfg.Log.Debug("the state of a task was not sent", "task", id, "error", err)
				return
			}
		}
	}
}

// taskNotification returns the state of a task as a notification.
func taskNotification(t *taskResult, subscription any) *jsonrpc.Request {
	told := *t
	told.ResultType = ""
	told.Meta = sdk.Meta{subscriptionKey: subscription}
	params, err := json.Marshal(&told)
	if err != nil {
		params = []byte(`{}`) // cannot happen: tasks/get can write this task as JSON
	}
	return &jsonrpc.Request{Method: methodTasks, Params: params}
}

// ackTasks adds the tasks of a subscription to its acknowledgement, and lets notifyAll
// start after the acknowledgement was sent.
func ackTasks(ctx context.Context, l *listener, req sdk.Request, send func(context.Context, sdk.Request) (sdk.Result, error)) (sdk.Result, error) {
	ss, _ := req.GetSession().(*sdk.ServerSession)
	p, ok := req.GetParams().(*sdk.SubscriptionsAcknowledgedParams)
	if !ok || ss == nil {
		return send(ctx, req)
	}
	with := &ackParams{Meta: p.Meta}
	with.Notifications.NotificationSubscriptions, with.Notifications.TaskIDs = p.Notifications, l.ids
	res, err := send(ctx, &sdk.ServerRequest[*ackParams]{Session: ss, Params: with})
	if err == nil {
		l.acked <- p.Meta[subscriptionKey]
	}
	return res, err
}

// ackParams are the params of an acknowledgement with tasks.
type ackParams struct {
	sdk.ParamsBase
	Meta          sdk.Meta `json:"_meta,omitempty"`
	Notifications struct {
		sdk.NotificationSubscriptions
		TaskIDs []string `json:"taskIds,omitempty"`
	} `json:"notifications"`
}

// withTaskIDs returns the params of a listen request with the task ids moved to the _meta,
// where the sdk does not change them.
func withTaskIDs(params json.RawMessage) json.RawMessage {
	ids := wire.Member(wire.Member(params, "notifications"), "taskIds")
	if ids == nil {
		return params
	}
	var all, meta map[string]json.RawMessage
	if json.Unmarshal(params, &all) != nil || json.Unmarshal(all["_meta"], &meta) != nil || meta == nil {
		return params
	}
	meta[taskIDsKey] = ids
	raw, err := json.Marshal(meta)
	if err != nil {
		return params
	}
	all["_meta"] = raw
	if raw, err = json.Marshal(all); err != nil {
		return params
	}
	return raw
}

// listenedFrame returns the result that ends a subscription.
func listenedFrame(id []byte) []byte {
	result := append([]byte(`{"resultType":"complete","_meta":{"`+subscriptionKey+`":`), id...)
	return wire.ResultFrame(id, append(result, `}}`...))
}

// listenBody returns the body of a listen request with its params from withTaskIDs.
func listenBody(body []byte) []byte {
	var all map[string]json.RawMessage
	if json.Unmarshal(body, &all) != nil || all["params"] == nil {
		return body
	}
	all["params"] = withTaskIDs(all["params"])
	if with, err := json.Marshal(all); err == nil {
		return with
	}
	return body
}
