package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"belljar.dev/mcp/wire"
)

const (
	deepestAnswer = 4096            // nesting of params, and of an answer whose parts are looked at one by one
	replyTime     = 5 * time.Second // for an answer to the server to be sent
)

// CallOptions say how a call is made. The zero value is good.
type CallOptions struct {
	// Timeout is how long the server may take; Limits.Timeout where it is zero, and without
	// an end where it is negative. While a request of the server waits for its answer, the
	// time does not run, and it begins anew with the answer, at most Limits.Rounds times.
	Timeout time.Duration
	// Owner is whose call it is, such as the session of a client. Requests of the server
	// reach OnRequest with it.
	Owner string
	// Session is the session of a client that the call is for. See Notification.Session.
	Session string
	// Progress gets the params of the server's progress notifications, without their token,
	// at most four in any second. It runs in the goroutine of Call. Nil asks for none.
	Progress func(params json.RawMessage)
	// Log gets the params of the log messages that the server sends while no other call is
	// open, or on the stream of the answer, at most four in any second. lost is how many were
	// left out before it: too fast or too large. The last report may have no params, and lost
	// alone. It runs in the goroutine of Call. With nil, OnNotification gets them.
	Log func(params json.RawMessage, lost int)
	// Level is the least level of the log messages that are wanted. A modern server gets it
	// with the request; empty wants none.
	Level string
	// Capabilities is what the client offers for this call, where the era has requests for
	// that; Config.Capabilities where it is nil.
	Capabilities json.RawMessage
	// Depth is how many servers such as this one the call has passed, if _meta of its params
	// does not say it.
	Depth int
	// Tool is the definition of the tool that tools/call names. Over HTTP it says which
	// arguments are sent as headers too. Nil for none.
	Tool json.RawMessage
}

// activity is what happened while a call was open.
type activity struct {
	heard  int       // messages that had come from the server when the request was written
	since  time.Time // when the time began anew, since a request of the server was answered
	rounds int       // how often that happened
}

// call is a request that is open.
type call struct {
	id       int64
	method   string
	owner    string
	progress func(json.RawMessage)
	timeout  time.Duration // not above zero for none
	tool     json.RawMessage
	proof    string        // a member that only the result of this method has; empty for unknown
	stream   bool          // it stays open and does not count as a call: a subscription
	list     bool          // as of the request
	stop     func()        // ends what the transport does for it; nil for nothing
	sent     chan struct{} // closed when the transport has sent the request; nil where the order is certain

	ended  chan struct{} // has a token when result and err are set
	result json.RawMessage
	err    error
	wake   chan struct{} // has a token when steps may have grown
	pace   pace          // of steps; belongs to the goroutine of the call

	steps    []json.RawMessage // guarded by Conn.mu: progress that was not shown
	activity activity          // guarded by Conn.mu
	logs     logs              // guarded by Conn.mu but for to and session, which do not change
}

// end wakes the caller. It is called once, by whoever has taken the call out of Conn.open.
func (cl *call) end() {
	cl.ended <- struct{}{}
	if cl.stop != nil && cl.err != nil {
		cl.stop()
	}
}

// Call makes a request and returns the result as the server wrote it. params is an object, or
// nil. The error is an *Error for one that the server answered with. When ctx ends, or the
// time of the call, the server gets a cancel and Call returns at once.
//
// Where a modern server asks for input, OnRequest answers that, and the request is made
// again.
func (c *Conn) Call(ctx context.Context, method string, params json.RawMessage, o CallOptions) (json.RawMessage, error) {
	r, err := newRequest(method, params, o.Depth)
	if err != nil {
		return nil, err
	}
	for round := 0; ; round++ {
		result, err := c.exchange(ctx, r, o)
		if err != nil || c.cfg.OnRequest == nil || !wantsInput(c.Info().Era, method, result) {
			return result, err
		}
		if round == c.cfg.Limits.Rounds {
			return nil, fmt.Errorf("%s: the server asked for input %d times and still wants more", method, round)
		}
		if r.input, err = c.input(ctx, result, o); err != nil {
			return nil, fmt.Errorf("%s: the server asks for input: %w", method, err)
		}
	}
}

// exchange makes one request, and returns its result.
func (c *Conn) exchange(ctx context.Context, r *request, o CallOptions) (json.RawMessage, error) {
	cl := newCall(r, o, c.cfg.Limits.Timeout)
	r.level = o.Level
	if err := c.send(ctx, cl, r, o.Capabilities); err != nil {
		return nil, err
	}
	return c.wait(ctx, cl)
}

func newCall(r *request, o CallOptions, timeout time.Duration) *call {
	if o.Timeout != 0 {
		timeout = o.Timeout
	}
	cl := &call{
		method: r.method, owner: o.Owner, progress: o.Progress, logs: logs{to: o.Log, session: o.Session}, timeout: timeout,
		tool: o.Tool, list: r.list, ended: make(chan struct{}, 1),
	}
	if o.Progress != nil || o.Log != nil {
		cl.wake = make(chan struct{}, 1)
	}
	return cl
}

// send gives a call its id and sends its request.
func (c *Conn) send(ctx context.Context, cl *call, r *request, capabilities json.RawMessage) error {
	c.mu.Lock()
	switch {
	case c.err != nil:
		c.mu.Unlock()
		return c.err
	case !cl.stream && len(c.open)-c.streams >= c.cfg.Limits.Open:
		c.mu.Unlock()
		return fmt.Errorf("%w: %d", ErrBusy, c.cfg.Limits.Open)
	}
	c.last++
	cl.id, cl.activity.heard = c.last, c.heard.count
	c.open[cl.id] = cl
	if cl.stream {
		c.streams++
	}
	c.mu.Unlock()

	line := r.line(cl.id, c.modern(r, capabilities), cl.progress != nil)
	err := error(nil)
	if len(line) > c.cfg.Limits.Answer {
		err = fmt.Errorf("%s: the request has %d bytes and the limit is %d", cl.method, len(line), c.cfg.Limits.Answer)
	} else {
		err = c.way.send(ctx, cl, line)
	}
	if err != nil && c.take(cl) {
		return err
	}
	return nil // what took the call has ended it too
}

// modern is what a request says of its client, nil in the legacy era.
func (c *Conn) modern(r *request, capabilities json.RawMessage) []byte {
	info := c.info.Load()
	switch {
	case r.method == discoverMethod:
		return modernMeta(wire.ModernRevision, c.cfg.Client, c.cfg.Capabilities)
	case r.bare || info == nil || info.Era != wire.Modern:
		return nil
	case capabilities == nil:
		capabilities = c.cfg.Capabilities
	}
	meta := modernMeta(info.Revision, c.cfg.Client, capabilities)
	if r.level != "" {
		meta = appendMember(meta, []byte(wire.LevelKey), wire.AppendQuoted(nil, r.level))
	}
	return meta
}

// wait waits until a call is answered, or gives it up.
func (c *Conn) wait(ctx context.Context, cl *call) (json.RawMessage, error) {
	var timeout, next <-chan time.Time
	var clock *time.Timer
	if cl.timeout > 0 {
		clock = time.NewTimer(cl.timeout)
		defer clock.Stop()
		timeout = clock.C
	}
	for {
		select {
		case <-cl.ended:
			if cl.logs.to != nil {
				c.tell(cl, true)
			}
			if cl.progress != nil {
				c.show(cl)
			}
			return cl.result, cl.err
		case <-cl.wake:
			if cl.logs.to != nil {
				c.tell(cl, false)
			}
			next = c.showNext(cl, next)
		case <-next:
			next = c.showNext(cl, nil)
		case <-ctx.Done():
			if c.abandon(ctx, cl, "the caller gave up") {
				return nil, fmt.Errorf("%s was cancelled: %w", cl.method, context.Cause(ctx))
			}
			<-cl.ended // at the same moment
			return cl.result, cl.err
		case <-timeout:
			if left := c.left(cl); left > 0 {
				clock.Reset(left)
				continue
			}
			if c.abandon(ctx, cl, "timeout") {
				return nil, c.timedOut(cl)
			}
			<-cl.ended // at the same moment
			return cl.result, cl.err
		}
	}
}

// showNext passes on progress, and returns what says when to do so again. next is what said
// so until now.
func (c *Conn) showNext(cl *call, next <-chan time.Time) <-chan time.Time {
	if next != nil {
		return next // the pace is used up until then
	}
	if wait := c.show(cl); wait > 0 {
		return time.After(wait)
	}
	return nil
}

// abandon gives a call up and tells the server. It reports false if the call has ended.
func (c *Conn) abandon(ctx context.Context, cl *call, reason string) bool {
	c.mu.Lock()
	if c.open[cl.id] != cl {
		c.mu.Unlock()
		return false
	}
	c.remove(cl)
	if len(c.cancelled) == mostCancelled {
		clear(c.cancelled)
		c.forgotten = true
	}
	c.cancelled[cl.id] = struct{}{}
	c.mu.Unlock()
	c.way.cancel(ctx, cl, reason)
	return true
}

// timedOut is the error of a call that was not answered.
func (c *Conn) timedOut(cl *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &TimeoutError{Method: cl.method, After: cl.timeout, Heard: c.heard.count - cl.activity.heard, Unasked: c.stats.Unasked}
}
