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

// A client of 2026-07-28 gets a question as the result of its call, and makes the call
// again with the answer (MCP 2026-07-28, "Multi Round-Trip Requests"). The call to the
// server stays open in the meantime, and continues with the answer. If the call to the
// server were repeated too, the server would do its work before the question twice.

// keptMost is the most calls of one tenant that wait for their clients at the same time.
const keptMost = 8

// questionPrefix is the prefix of the IDs of servers' questions.
const questionPrefix = "u-"

var (
	errUnanswered = fmt.Errorf("the client did not answer within %v", askedWait)
	errManyKept   = fmt.Errorf("%d calls already wait for answers of people", keptMost)
	errKeptOver   = errors.New("the call that asked this has ended: it waited too long for the answer, or belljar was restarted. What it had done until then stays done. Call the tool again without the answer")
)

// keeper contains the calls that outlive the requests of their clients.
type keeper struct {
	wg sync.WaitGroup // counts the calls that run

	mu      sync.Mutex
	waiting map[string]*kept // guarded by mu: calls that wait for their clients, by the IDs of their questions
}

// kept is a call of a server that may outlive the request for which it was made.
type kept struct {
	cancel context.CancelCauseFunc
	// timer that ends the call if its client does not continue it; nil unless the call
	// waits. Guarded by keeper.mu
	over *time.Timer

	done chan struct{} // closed when res and err are set
	res  *mcp.Result
	err  error

	mu   sync.Mutex
	call mcp.Call      // guarded by mu: latest call of the client
	open bool          // guarded by mu: whether call has no result yet
	next chan struct{} // guarded by mu: closed when the client makes the call again
	asks chan struct{} // guarded by mu: contains a token if the result of call is a question for the client
}

// begin starts a call. The end of ctx ends neither the call nor run.
func (k *keeper) begin(ctx context.Context, call mcp.Call, log *slog.Logger, run func(context.Context, *kept) (*mcp.Result, error)) *kept {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	one := &kept{cancel: cancel, done: make(chan struct{}), call: call, open: true, next: make(chan struct{}), asks: make(chan struct{}, 1)}
	k.wg.Go(func() {
		defer close(one.done)
		defer cancel(nil)
		defer func() { // recovers as the wrapper of a handler does: no function above this goroutine recovers
			if p := recover(); p != nil {
				log.Error("a call of an upstream panicked", "call", call.ID, "panic", p, "stack", string(debug.Stack()))
				one.res, one.err = nil, errors.New("internal error: the call stopped unexpectedly; the log has the cause")
			}
		}()
		one.res, one.err = run(ctx, one)
	})
	return one
}

// resume returns the kept call that a client continues with the answers in call. It returns
// nil if call has no answers to questions of servers.
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
		return nil, nil //nolint:nilnil // nil means that the call continues no other one
	}
	k.drop(one)
	one.mu.Lock()
	defer one.mu.Unlock()
	close(one.next)
	one.call, one.open, one.next, one.asks = call, true, make(chan struct{}), make(chan struct{}, 1)
	return one, nil
}

// drop removes a call from the calls that wait. The caller holds mu.
func (k *keeper) drop(one *kept) {
	if one.over != nil {
		one.over.Stop()
		one.over = nil
	}
	maps.DeleteFunc(k.waiting, func(_ string, other *kept) bool { return other == one })
}

// wait records that a call waits for the answer to a question.
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

// close ends all calls that wait, and waits for those that run. No call may begin after
// close.
func (k *keeper) close(why error) {
	k.mu.Lock()
	for _, one := range k.waiting {
		one.cancel(why)
		k.drop(one)
	}
	k.mu.Unlock()
	k.wg.Wait()
}

// now returns the latest call of the client, a channel that is closed when the client makes
// the call again, and a channel for a token if the result of the call is a question.
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

// tenant returns the tenant of the call.
func (one *kept) tenant() string {
	call, _, _ := one.now()
	return call.Session.Tenant()
}

// follow waits until the call has a result or puts a question to the client. It ends the
// call when ctx ends.
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
		return &mcp.Result{}, nil // the client gets the questions in place of this result
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

// tell calls f with the call that the client has open. It does not call f while a kept call
// waits for the client. f must not block.
func (r *running) tell(f func(mcp.Call)) {
	if r.kept == nil {
		f(r.call)
		return
	}
	r.kept.tell(f)
}
