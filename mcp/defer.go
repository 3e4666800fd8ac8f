package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client that declares the tasks extension (io.modelcontextprotocol/tasks,
// 2026-07-28) need not wait for a call: one that runs longer than
// Config.Patience is answered by a handle, with which the client asks later.
// The call itself is the same; what is deferred is its answer. To a client
// without the extension the tool must answer in time (Call.Patience).

const tasksExtension = "io.modelcontextprotocol/tasks"

// Bounds of what is deferred.
const (
	deferredMost = 128             // of one session, with those that have ended
	deferredKept = time.Hour       // after the end
	pollEvery    = 2 * time.Second // what clients are told to wait between two questions
)

// The states of a deferred call, as the extension names them.
const (
	stateWorking   = "working"
	stateInput     = "input_required"
	stateCompleted = "completed"
	stateFailed    = "failed"
	stateCancelled = "cancelled"
)

// deferred is a call whose answer the client asks for later.
type deferred struct {
	id      string
	session *Session
	created time.Time
	cancel  context.CancelCauseFunc
	over    chan struct{} // closed when the call has returned
	ready   chan struct{} // gets a token when the handle should be given at once

	mu      sync.Mutex
	handed  bool                 // guarded by mu: the client has the handle
	state   string               // guarded by mu
	updated time.Time            // guarded by mu
	result  *sdk.CallToolResult  // guarded by mu
	failure *jsonrpc.Error       // guarded by mu
	asked   map[string]*question // guarded by mu: what the client has not answered
	count   int                  // guarded by mu: questions so far
}

// question is one that a deferred call asks its client.
type question struct {
	request sdk.InputRequest
	answer  chan sdk.InputResponse // gets one
}

// errCancelled is the cause of a call that tasks/cancel ended.
var errCancelled = errors.New("the client cancelled the task")

// deferredKey is where the context of a call holds its *deferred.
type deferredKey struct{}

// deferring runs a call, in a goroutine, and gives its answer, or a handle
// where it takes longer than wait. The call is cancelled by the client while it
// waits for an answer, by tasks/cancel afterwards, and at the session's end.
func (s *Server) deferring(ctx context.Context, session *Session, wait time.Duration, run func(context.Context) (*sdk.CallToolResult, error)) (sdk.Result, error) {
	if err := s.enter(); err != nil {
		return nil, fault(internalError, "%v", err)
	}
	// What the context holds stays, as who asks.
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	now := time.Now()
	d := &deferred{
		id: "t-" + rand.Text(), session: session, created: now, updated: now, cancel: cancel,
		over: make(chan struct{}), ready: make(chan struct{}, 1), state: stateWorking, asked: make(map[string]*question),
	}
	own = context.WithValue(own, deferredKey{}, d)
	own, finish, err := session.begin(own, d.id)
	if err != nil {
		s.wg.Done()
		cancel(err)
		return nil, fault(internalError, "%v", err)
	}
	go func() {
		defer s.wg.Done()
		defer close(d.over)
		defer cancel(nil)
		defer finish()
		res, err := s.guarded(own, run)
		d.finish(res, err, context.Cause(own))
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-d.over:
		return d.answer()
	case <-ctx.Done():
		cancel(context.Cause(ctx))
		return nil, fault(internalError, "%v", context.Cause(ctx))
	case <-timer.C:
	case <-d.ready:
	}
	if err := s.keep(d); err != nil {
		<-d.over // there is no room for a handle: the client waits after all
		return d.answer()
	}
	return d.opened(), nil
}

// guarded is run with a panic made an error.
func (s *Server) guarded(ctx context.Context, run func(context.Context) (*sdk.CallToolResult, error)) (res *sdk.CallToolResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.cfg.Log.Error("a deferred call panicked", "panic", p)
			res, err = nil, fault(internalError, "internal error in tools/call; the log has the cause")
		}
	}()
	return run(ctx)
}

// keep has the store hold a deferred call, in place of the oldest one of its
// session that has ended where there is no room.
func (s *Server) keep(d *deferred) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ended []*deferred
	count, now := 0, time.Now()
	for id, o := range s.deferred {
		end, over := o.ended()
		switch {
		case over && now.Sub(end) > deferredKept:
			delete(s.deferred, id)
		case o.session == d.session:
			if count++; over {
				ended = append(ended, o)
			}
		}
	}
	if count >= deferredMost {
		if len(ended) == 0 {
			return fmt.Errorf("%d calls of this session are deferred already", count)
		}
		oldest := slices.MinFunc(ended, func(a, b *deferred) int { return a.created.Compare(b.created) })
		delete(s.deferred, oldest.id)
	}
	s.deferred[d.id] = d
	d.mu.Lock()
	d.handed = true
	d.mu.Unlock()
	return nil
}

// deferredOf is the deferred call of a session that has the id.
func (s *Server) deferredOf(session *Session, id string) (*deferred, error) {
	s.mu.Lock()
	d := s.deferred[id]
	s.mu.Unlock()
	if d == nil || d.session != session {
		return nil, fault(invalidParams, "task %.80q: there is none of this id; it is kept for %v after its end", id, deferredKept)
	}
	if end, over := d.ended(); over && time.Since(end) > deferredKept {
		return nil, fault(invalidParams, "task %.80q has expired: it is kept for %v after its end", id, deferredKept)
	}
	return d, nil
}

// forgetDeferred forgets what a session has deferred; mu is held.
func (s *Server) forgetDeferred(session *Session) {
	for id, d := range s.deferred {
		if d.session == session {
			delete(s.deferred, id)
		}
	}
}

// finish notes how the call has ended. A cancel that came first wins.
func (d *deferred) finish(res *sdk.CallToolResult, err, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.updated = time.Now()
	clear(d.asked)
	switch {
	case errors.Is(cause, errCancelled):
		d.state = stateCancelled
	case err != nil:
		var theirs *jsonrpc.Error
		if !errors.As(err, &theirs) {
			theirs = asWire(err).sdk(modern)
		}
		d.state, d.failure = stateFailed, theirs
	default:
		d.state, d.result = stateCompleted, res
	}
}

// ended is when the call ended, if it has.
func (d *deferred) ended() (time.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.updated, d.state != stateWorking && d.state != stateInput
}

// told reports whether the client has the handle, after which it wants to hear
// no more of the request itself.
func (d *deferred) told() bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.handed
}

// answer is the result of a call that needed no handle.
func (d *deferred) answer() (sdk.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failure != nil {
		return nil, d.failure
	}
	if d.result == nil {
		return nil, fault(internalError, "%v", errCancelled)
	}
	return d.result, nil
}

// ask asks the client by tasks/get and waits for its answer, or for the end of ctx.
func (d *deferred) ask(ctx context.Context, r sdk.InputRequest) (sdk.InputResponse, error) {
	q := &question{request: r, answer: make(chan sdk.InputResponse, 1)}
	d.mu.Lock()
	d.count++ // keys are not used twice (tasks, "Task Update Requests")
	d.asked[fmt.Sprintf("q%d", d.count)] = q
	d.state, d.updated = stateInput, time.Now()
	d.mu.Unlock()
	select {
	case d.ready <- struct{}{}:
	default:
	}
	select {
	case a := <-q.answer:
		return a, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// askAll asks several things, one after the other.
func (d *deferred) askAll(ctx context.Context, all sdk.InputRequestMap) (sdk.InputResponseMap, error) {
	said := make(sdk.InputResponseMap, len(all))
	for _, key := range sortedKeys(all) {
		a, err := d.ask(ctx, all[key])
		if err != nil {
			return nil, err
		}
		said[key] = a
	}
	return said, nil
}

// reply hands on what the client answered; what nobody asked is ignored.
func (d *deferred) reply(all map[string]json.RawMessage) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range sortedKeys(all) {
		q := d.asked[key]
		if q == nil {
			continue
		}
		one, err := json.Marshal(map[string]json.RawMessage{key: all[key]})
		if err != nil {
			return fault(invalidParams, "inputResponses: %v", err)
		}
		var typed sdk.InputResponseMap
		if err := json.Unmarshal(one, &typed); err != nil {
			return fault(invalidParams, "inputResponses: %v", err)
		}
		q.answer <- typed[key]
		delete(d.asked, key)
	}
	if len(d.asked) == 0 && d.state == stateInput {
		d.state, d.updated = stateWorking, time.Now()
	}
	return nil
}
