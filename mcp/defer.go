package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// A client that declares the tasks extension (io.modelcontextprotocol/tasks, 2026-07-28)
// does not have to wait for a call. If the call runs longer than Config.Patience, the
// answer is a handle, with which the client polls. Only the answer is deferred, not the
// call. Running calls are kept here; Tasks keeps the answers of calls that have ended. For
// a client without the extension, the tool must answer in time (Call.Patience).

const tasksExtension = "io.modelcontextprotocol/tasks"

const (
	deferredMost = 128             // deferred calls of one session
	pollEvery    = 2 * time.Second // poll interval that the server gives to clients
	keepWait     = 10 * time.Second
)

// deferred is a call whose answer the client fetches later.
type deferred struct {
	call   LaterCall
	cancel context.CancelCauseFunc
	over   chan struct{} // closed when the call has returned
	ready  chan struct{} // gets a token if the client should get the handle immediately
	kept   sync.Once     // done when Tasks has the answer

	mu      sync.Mutex
	id      string               // guarded by mu: the handle; empty until the client has it
	state   string               // guarded by mu
	created time.Time            // guarded by mu
	updated time.Time            // guarded by mu
	result  *sdk.CallToolResult  // guarded by mu
	failure *jsonrpc.Error       // guarded by mu
	cause   error                // guarded by mu: why the call was ended early; nil if it was not
	asked   map[string]*question // guarded by mu: questions that the client has not answered
	count   int                  // guarded by mu: number of questions so far
}

// deferrals are the calls whose answers are deferred, and the clients that have subscribed
// to their tasks.
type deferrals struct {
	cfg      *Config
	sessions *sessionTable
	keeper   Tasks // nil if all clients must wait

	mu        sync.Mutex
	running   map[string]*deferred   // guarded by mu: by the id of the task
	listening map[*listener]struct{} // guarded by mu: the subscriptions
}

func newDeferrals(cfg *Config, sessions *sessionTable) *deferrals {
	return &deferrals{cfg: cfg, sessions: sessions, running: make(map[string]*deferred), listening: make(map[*listener]struct{})}
}

// changed does the work of Server.TaskChanged.
func (ds *deferrals) changed(id string) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for l := range ds.listening {
		if _, ok := l.changed[id]; ok {
			l.changed[id] = true
			select {
			case l.wake <- struct{}{}:
			default:
			}
		}
	}
}

// question is a question of a deferred call to its client.
type question struct {
	request sdk.InputRequest
	answer  chan sdk.InputResponse // gets one answer
}

// errCancelled is the cause if tasks/cancel ended a call.
var errCancelled = errors.New("the client cancelled the task")

// run runs a call in a goroutine and returns its answer, or a handle if the call takes
// longer than wait. If wait is 0, run always returns a handle. While the client waits for
// the answer, it can cancel the call as usual; afterwards it can use tasks/cancel. The end
// of the session cancels the call, too.
func (ds *deferrals) run(ctx context.Context, session *Session, tool string, wait time.Duration, run func(context.Context) (*sdk.CallToolResult, error)) (sdk.Result, error) {
	if err := ds.sessions.enter(); err != nil {
		return nil, wire.Errorf(wire.InternalError, "%v", err)
	}
	// own keeps the values of ctx, such as the caller's name, but does not end with ctx.
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	now := time.Now()
	d := &deferred{
		call: LaterCall{Session: session, Tool: tool, Started: now, Key: rand.Text()}, created: now, updated: now, cancel: cancel,
		over: make(chan struct{}), ready: make(chan struct{}, 1), state: TaskWorking, asked: make(map[string]*question),
	}
	own = context.WithValue(own, deferredKey{}, d)
	if err := session.begin(d.call.Key, cancel); err != nil {
		ds.sessions.wg.Done()
		return nil, wire.Errorf(wire.InternalError, "%v", err)
	}
	go func() {
		defer ds.sessions.wg.Done()
		defer close(d.over)
		defer session.finish(d.call.Key)
		res, err := ds.guarded(own, run)
		if d.finish(res, err, context.Cause(own)) {
			ds.settled(own, d)
		}
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	over := d.over
	if wait <= 0 {
		over = nil // the client first gets a handle, however soon the call ends
	}
	for {
		select {
		case <-over:
			return d.answer()
		case <-ctx.Done():
			cancel(context.Cause(ctx))
			return nil, wire.Errorf(wire.InternalError, "%v", context.Cause(ctx))
		case <-timer.C:
		case <-d.ready:
		}
		err := ds.keep(ctx, d)
		if err == nil {
			return d.opened(), nil
		}
		over = d.over
		ds.cfg.Log.Warn("a client has to wait for a long call: the call could not become a task", "tool", tool, "err", err)
	}
}

// guarded calls run, and turns a panic into an error.
func (ds *deferrals) guarded(ctx context.Context, run func(context.Context) (*sdk.CallToolResult, error)) (res *sdk.CallToolResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			ds.cfg.Log.Error("a deferred call panicked", "panic", p)
			res, err = nil, wire.Errorf(wire.InternalError, "internal error in tools/call; the server's log states the cause")
		}
	}()
	return run(ctx)
}

// keep makes a call a task, and gives the task's handle to the deferred call.
func (ds *deferrals) keep(ctx context.Context, d *deferred) error {
	ds.mu.Lock()
	count := 0
	for _, o := range ds.running {
		if o.call.Session == d.call.Session {
			count++
		}
	}
	ds.mu.Unlock()
	if count >= deferredMost {
		return fmt.Errorf("%d calls of this session are deferred already", count)
	}
	// Session.end waits until this is finished, and then releases what is opened here.
	ctx, cancel := context.WithCancelCause(ctx)
	opening := NewCallID()
	if err := d.call.Session.begin(opening, cancel); err != nil {
		return err
	}
	defer d.call.Session.finish(opening)
	t, err := ds.keeper.Open(ctx, d.call)
	if err != nil {
		return err
	}
	ds.mu.Lock()
	ds.running[t.ID] = d
	ds.mu.Unlock()
	d.mu.Lock()
	d.id, d.created = t.ID, t.Created
	_, over := d.end()
	d.mu.Unlock()
	if over {
		ds.settled(ctx, d) // the call returned while it became a task
	}
	return nil
}

// settled passes the answer of a task to Tasks. A task that the end of its session
// cancelled is lost: it has no answer.
func (ds *deferrals) settled(ctx context.Context, d *deferred) {
	d.kept.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWait)
		defer cancel()
		d.mu.Lock()
		id, state, cause := d.id, d.state, d.cause
		answer, err := json.Marshal(answerOf(d.result, d.failure))
		d.mu.Unlock()
		if sessionOver(cause) {
			return
		}
		if err == nil {
			err = ds.keeper.Finish(ctx, d.call, id, state, answer)
		}
		if err != nil { // then only this process has the answer, until the session ends
			ds.cfg.Log.Error("the answer of a task was not kept", "tool", d.call.Tool, "err", err)
		} else {
			ds.mu.Lock()
			delete(ds.running, id)
			ds.mu.Unlock()
		}
		ds.changed(id)
	})
}

// find returns the state of a session's task. The task runs if d is not nil; otherwise
// Tasks has it. meta is the _meta of the request for the task.
func (ds *deferrals) find(ctx context.Context, session *Session, id string, meta sdk.Meta) (*deferred, *taskResult, error) {
	ds.mu.Lock()
	d := ds.running[id]
	ds.mu.Unlock()
	if d != nil && d.call.Session == session {
		return d, d.detail(), nil
	}
	err := ErrNotFound
	var t Task
	if ds.keeper != nil {
		t, err = ds.keeper.Get(ctx, session, id)
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil, wire.Errorf(wire.InvalidParams, "task %.80q: no task has this id, or the task is no longer kept", id)
	case err != nil:
		return nil, nil, wire.Errorf(wire.InternalError, "task %.80q: %v", id, err)
	}
	detail, err := ds.kept(t, ds.cfg.structures(session, meta))
	return nil, detail, err
}

// forget removes the deferred calls of a session.
func (ds *deferrals) forget(session *Session) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for id, d := range ds.running {
		if d.call.Session == session {
			delete(ds.running, id)
		}
	}
}

// finish records how the call ended, and reports whether the client has the handle. An
// earlier tasks/cancel decides the state.
func (d *deferred) finish(res *sdk.CallToolResult, err, cause error) (handed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.updated, d.cause = time.Now(), cause
	clear(d.asked)
	switch {
	case errors.Is(cause, errCancelled):
		d.state = TaskCancelled
	case err != nil:
		var theirs *jsonrpc.Error
		if !errors.As(err, &theirs) {
			theirs = forSDK(wire.AsError(err), wire.Modern)
		}
		d.state, d.failure = TaskFailed, theirs
	default:
		d.state, d.result = TaskCompleted, res
	}
	return d.id != ""
}

// end returns when the call ended, and whether it has ended; the caller holds mu.
func (d *deferred) end() (time.Time, bool) {
	return d.updated, d.state != TaskWorking && d.state != taskInput
}

// answer returns the result of a call that ended before it needed a handle.
func (d *deferred) answer() (sdk.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failure != nil {
		return nil, d.failure
	}
	if d.result == nil {
		return nil, wire.Errorf(wire.InternalError, "%v", errCancelled)
	}
	return d.result, nil
}

// ask asks the client with tasks/get, and waits for its answer or for the end of ctx.
func (d *deferred) ask(ctx context.Context, r sdk.InputRequest) (sdk.InputResponse, error) {
	q := &question{request: r, answer: make(chan sdk.InputResponse, 1)}
	d.mu.Lock()
	d.count++ // a key must not be used twice (tasks, "Task Update Requests")
	d.asked[fmt.Sprintf("q%d", d.count)] = q
	d.state, d.updated = taskInput, time.Now()
	id := d.id
	d.mu.Unlock()
	if id != "" {
		d.call.Session.server.deferrals.changed(id)
	}
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

// askAll asks several questions, one after the other.
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

// reply passes on the client's answers. It ignores answers to unknown questions.
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
			return wire.Errorf(wire.InvalidParams, "inputResponses: %v", err)
		}
		var typed sdk.InputResponseMap
		if err := json.Unmarshal(one, &typed); err != nil {
			return wire.Errorf(wire.InvalidParams, "inputResponses: %v", err)
		}
		q.answer <- typed[key]
		delete(d.asked, key)
	}
	if len(d.asked) == 0 && d.state == taskInput {
		d.state, d.updated = TaskWorking, time.Now()
	}
	return nil
}
