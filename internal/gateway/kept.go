package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"belljar.dev/mcp"
)

// A client of 2026-07-28 is asked by the result of its call, and makes the call again with the
// answer (MCP 2026-07-28, "Multi Round-Trip Requests"). The call of the server stays open meanwhile,
// and goes on with the answer. If it were made again too, the server would do twice what it had
// done before it asked.

// keptMost is how many calls of one tenant wait for their clients at once.
const keptMost = 8

// questionPrefix begins the IDs of the questions of servers.
const questionPrefix = "u-"

var (
	errUnanswered = fmt.Errorf("the client did not answer within %v", askedWait)
	errManyKept   = fmt.Errorf("%d calls wait for answers of people already", keptMost)
	errKeptOver   = errors.New("the call that asked this is over: it waited too long for the answer, or belljar was restarted. What it had done until then stays done. Call the tool again without the answer")
)

// keeper has the calls that outlive the requests of their clients.
type keeper struct {
	wg sync.WaitGroup // of the calls

	mu      sync.Mutex
	waiting map[string]*kept // guarded by mu: calls that wait for their clients, by the IDs of their questions
}

// kept is a call of a server that may outlive the request for which it was made.
type kept struct {
	cancel context.CancelCauseFunc
	over   *time.Timer // ends it if its client does not come; nil unless it waits. Guarded by keeper.mu

	done chan struct{} // closed when res and err are set
	res  *mcp.Result
	err  error

	mu   sync.Mutex
	call mcp.Call      // guarded by mu: the latest of the client
	open bool          // guarded by mu: call has no result yet
	next chan struct{} // guarded by mu: closed when the client makes the call again
	asks chan struct{} // guarded by mu: has a token if the result of call asks the client
}

// begin starts a call. ctx ends neither it nor what run does.
func (k *keeper) begin(ctx context.Context, call mcp.Call, log *slog.Logger, run func(context.Context, *kept) (*mcp.Result, error)) *kept {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	one := &kept{cancel: cancel, done: make(chan struct{}), call: call, open: true, next: make(chan struct{}), asks: make(chan struct{}, 1)}
	k.wg.Go(func() {
		defer close(one.done)
		defer cancel(nil)
		defer func() { // as around each handler: nobody above this goroutine recovers
			if p := recover(); p != nil {
				log.Error("a call of an upstream panicked", "call", call.ID, "panic", p, "stack", string(debug.Stack()))
				one.res, one.err = nil, errors.New("internal error: the call stopped unexpectedly; the log has the cause")
			}
		}()
		one.res, one.err = run(ctx, one)
	})
	return one
}

// resume returns the call that a client goes on with by answers that it brought; nil if it brought
// none to questions of servers.
func (k *keeper) resume(call mcp.Call) (*kept, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var one *kept
	gone := false
	for _, id := range call.Brought() {
		if !strings.HasPrefix(id, questionPrefix) {
			continue
		}
		if one = k.waiting[id]; one != nil {
			break
		}
		gone = true
	}
	if one == nil {
		if gone {
			return nil, errKeptOver
		}
		return nil, nil //nolint:nilnil // a call like any other
	}
	k.drop(one)
	one.mu.Lock()
	defer one.mu.Unlock()
	close(one.next)
	one.call, one.open, one.next, one.asks = call, true, make(chan struct{}), make(chan struct{}, 1)
	return one, nil
}

// drop forgets that a call waits; mu is held.
func (k *keeper) drop(one *kept) {
	if one.over != nil {
		one.over.Stop()
		one.over = nil
	}
	maps.DeleteFunc(k.waiting, func(_ string, other *kept) bool { return other == one })
}

// wait notes that a call waits for the answer to a question.
func (k *keeper) wait(id string, one *kept) error {
	tenant := one.tenant()
	k.mu.Lock()
	defer k.mu.Unlock()
	others := make(map[*kept]bool)
	for _, other := range k.waiting {
		if other.tenant() == tenant {
			others[other] = true
		}
	}
	if !others[one] && len(others) >= keptMost {
		return errManyKept
	}
	if k.waiting == nil {
		k.waiting = make(map[string]*kept)
	}
	k.waiting[id] = one
	if one.over == nil {
		one.over = time.AfterFunc(askedWait, func() { k.end(one, errUnanswered) })
	}
	return nil
}

// end ends a call that waits.
func (k *keeper) end(one *kept, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(one)
	one.cancel(why)
}

// close ends all calls that wait, and waits for those that run. No others may begin.
func (k *keeper) close(why error) {
	k.mu.Lock()
	for _, one := range k.waiting {
		one.cancel(why)
		k.drop(one)
	}
	k.mu.Unlock()
	k.wg.Wait()
}

// now returns the latest call of the client, what is closed when the client makes another one, and
// what gets a token if the result of the call asks.
func (one *kept) now() (call mcp.Call, next <-chan struct{}, asks chan<- struct{}) {
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.call, one.next, one.asks
}

// tell calls f with the latest call of the client while that call waits for its result.
func (one *kept) tell(f func(mcp.Call)) {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.open {
		f(one.call)
	}
}

// tenant returns whose call it is.
func (one *kept) tenant() string {
	call, _, _ := one.now()
	return call.Session.Tenant()
}

// follow waits for the result of the call, or until it asks the client. It ends the call with ctx.
func (one *kept) follow(ctx context.Context) (*mcp.Result, error) {
	one.mu.Lock()
	asks := one.asks
	one.mu.Unlock()
	defer func() {
		one.mu.Lock()
		defer one.mu.Unlock()
		one.open = false
	}()
	select {
	case <-asks:
		return &mcp.Result{}, nil // in its place, the client gets the questions
	case <-one.done:
	case <-ctx.Done():
		one.cancel(context.Cause(ctx))
		<-one.done
	}
	return one.res, one.err
}

// now returns the latest call of the client.
func (r *running) now() mcp.Call {
	if r.kept == nil {
		return r.call
	}
	call, _, _ := r.kept.now()
	return call
}

// tell tells the client something by the call that it has open; by none while a call that is kept
// waits for it. f must not block.
func (r *running) tell(f func(mcp.Call)) {
	if r.kept == nil {
		f(r.call)
		return
	}
	r.kept.tell(f)
}
