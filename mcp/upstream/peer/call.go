package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"belljar.dev/mcp/wire"
)

const (
	deepestAnswer = 4096            // most levels of nesting of params, and of an answer whose parts are checked one by one
	replyTime     = 5 * time.Second // time for sending an answer to the server
)

// CallOptions are the options of a call. The zero value is valid.
type CallOptions struct {
	// Timeout is how long the server may take. Zero stands for Limits.Timeout; a negative
	// value sets no limit. The time does not run while a request of the server waits for
	// its answer. It begins anew with that answer, at most Limits.Rounds times.
	Timeout time.Duration
	// Owner is the owner of the call, such as the session of a client. OnRequest gets it
	// with requests of the server.
	Owner string
	// Session is the session of the client that the call is for. See Notification.Session.
	Session string
	// Progress gets the params of the server's progress notifications, without their token,
	// at most four per second. It runs in the goroutine of Call. If it is nil, no progress
	// is requested.
	Progress func(params json.RawMessage)
	// Log gets the params of log messages, at most four per second: those that the server
	// sends while no other call is open, or on the stream of the answer. lost is how many
	// messages before it were dropped, because they were too many or too large. The last
	// report may have no params, but only lost. Log runs in the goroutine of Call. If it is
	// nil, OnNotification gets the messages.
	Log func(params json.RawMessage, lost int)
	// Level is the lowest level of the wanted log messages. A modern server gets it with
	// the request; empty means that no messages are wanted.
	Level string
	// Capabilities are the client's capabilities for this call, if the era sends them with
	// each request. Nil stands for Config.Capabilities.
	Capabilities json.RawMessage
	// Depth is how many belljar servers the call has passed, if _meta of its params does
	// not contain that.
	Depth int
	// Tool is the definition of the tool that tools/call names. Over HTTP it determines
	// which arguments are also sent as headers. It may be nil.
	Tool json.RawMessage
}

// activity records the events while a call was open.
type activity struct {
	heard  int       // number of the server's messages when the request was written
	since  time.Time // when the time last began anew, because a request of the server was answered
	rounds int       // how often the time began anew
}

// call is an open request.
type call struct {
	id       int64
	method   string
	owner    string
	progress func(json.RawMessage)
	timeout  time.Duration // zero or negative: no timeout
	tool     json.RawMessage
	proof    string        // a member that only a result of this method has; empty if the method has no such member
	stream   bool          // the request is a subscription: it stays open and does not count as a call
	list     bool          // the same as request.list
	stop     func()        // ends the transport's work for the call; may be nil
	sent     chan struct{} // closed when the transport has sent the request; nil if the transport keeps the order

	ended  chan struct{} // has a token after result and err are set
	result json.RawMessage
	err    error
	wake   chan struct{} // has a token if steps may have grown
	pace   pace          // pace of steps; used only by the goroutine of the call

	steps    []json.RawMessage // guarded by Conn.mu: progress that has not been shown
	activity activity          // guarded by Conn.mu
	logs     logs              // guarded by Conn.mu, except for to and session, which do not change
}

// end wakes the caller. It is called once, by the goroutine that has removed the call from
// Conn.open.
func (cl *call) end() {
	cl.ended <- struct{}{}
	if cl.stop != nil && cl.err != nil {
		cl.stop()
	}
}

// Call makes a request and returns the result as the server wrote it. params is an object,
// or nil. If the server answers with an error, Call returns an *Error. When ctx ends, or
// the timeout is over, Call sends the server a cancel and returns immediately.
//
// If a modern server asks for input, OnRequest answers, and the request is made again.
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
			return nil, fmt.Errorf("%s: the server asked for input %d times and asks again", method, round)
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
	return nil // the goroutine that removed the call has ended it too
}

// modern returns the members of _meta that describe the client in a modern request; nil in
// the legacy era.
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

// wait waits until a call is answered, or abandons it.
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
			<-cl.ended // the call was answered at the same time
			return cl.result, cl.err
		case <-timeout:
			if left := c.left(cl); left > 0 {
				clock.Reset(left)
				continue
			}
			if c.abandon(ctx, cl, "timeout") {
				return nil, c.timedOut(cl)
			}
			<-cl.ended // the call was answered at the same time
			return cl.result, cl.err
		}
	}
}

// showNext passes on progress. It returns a channel that receives when it must be called
// again. next is the channel of the previous call.
func (c *Conn) showNext(cl *call, next <-chan time.Time) <-chan time.Time {
	if next != nil {
		return next // no progress may pass until then
	}
	if wait := c.show(cl); wait > 0 {
		return time.After(wait)
	}
	return nil
}

// abandon ends a call and sends the server a cancel. It returns false if the call has
// already ended.
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

// timedOut returns the error of a call that was not answered in time.
func (c *Conn) timedOut(cl *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &TimeoutError{Method: cl.method, After: cl.timeout, Heard: c.heard.count - cl.activity.heard, Unasked: c.stats.Unasked}
}
