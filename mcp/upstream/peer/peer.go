package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"belljar.dev/mcp/wire"
)

// Era is the era of the protocol that Open may use.
type Era int

// The eras. A server does not change its era, so a caller may store Info.Era for the next
// Open.
const (
	Auto   Era = iota // send server/discover, and initialize if that fails
	Legacy            // initialize, revisions up to 2025-11-25
	Modern            // server/discover, revision 2026-07-28
)

// Config is the configuration of a connection. The comment of a field names the default for
// its zero value.
type Config struct {
	Client json.RawMessage // the client's name and version, as an object; default {"name":"belljar","version":"0"}
	// Capabilities are the client's capabilities, an object; default {}. Requests of the
	// server that need other capabilities are refused, even if OnRequest could answer them.
	Capabilities json.RawMessage
	Era          Era
	// OnRequest answers the server's requests elicitation/create, sampling/createMessage
	// and roots/list, each in a goroutine of its own. Its ctx ends when the server
	// withdraws the request, or when the call of the request ends. If it returns a
	// *wire.Error, the server gets that error. If OnRequest is nil, requests are refused,
	// and Call returns a result that asks for input unchanged.
	OnRequest func(ctx context.Context, r Request) (json.RawMessage, error)
	// OnNotification gets the notifications of the server, except progress and cancels, one
	// after the other. It must not block for ever. Nil drops them.
	OnNotification func(n Notification)
	Limits         Limits
	Log            *slog.Logger // nil logs nothing
}

// Limits bound what a server can make the client keep or wait for. The comment of a field
// contains the default for its zero value.
type Limits struct {
	Answer   int // bytes of one message that answers a call; default 10 MiB
	Message  int // bytes of any other message, and of one item of a list; default 1 MiB
	Depth    int // nesting of one message, and of one item of a list; default 128
	Open     int // calls that are open at the same time; default 128
	Requests int // requests of the server that are open at the same time; default 16
	Queue    int // notifications that wait for OnNotification; default 256
	Bad      int // consecutive messages that cannot be used, before the connection ends; default 16
	Noise    int // bytes before the first message that are not a message; default 64 KiB
	// times that a server may ask for input during one call, or get its time anew by
	// asking; default 8
	Rounds  int
	Items   int           // items of one list; default 4096
	Probe   time.Duration // wait for server/discover before initialize is tried as well; default 2 s
	Timeout time.Duration // timeout of a call that sets none; default 120 s
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Answer:   orElse(l.Answer, 10<<20),
		Message:  orElse(l.Message, 1<<20),
		Depth:    orElse(l.Depth, 128),
		Open:     orElse(l.Open, 128),
		Requests: orElse(l.Requests, 16),
		Queue:    orElse(l.Queue, 256),
		Bad:      orElse(l.Bad, 16),
		Noise:    orElse(l.Noise, 64<<10),
		Rounds:   orElse(l.Rounds, 8),
		Items:    orElse(l.Items, 4096),
		Probe:    orElse(l.Probe, 2*time.Second),
		Timeout:  orElse(l.Timeout, 120*time.Second),
	}
}

func orElse[T int | time.Duration](v, other T) T {
	if v <= 0 {
		return other
	}
	return v
}

// withDefaults returns cfg with its defaults, or an error for an invalid field.
func (cfg Config) withDefaults() (Config, error) {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Client == nil {
		cfg.Client = json.RawMessage(`{"name":"belljar","version":"0"}`)
	}
	if cfg.Capabilities == nil {
		cfg.Capabilities = json.RawMessage(`{}`)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	for name, object := range map[string]json.RawMessage{"Client": cfg.Client, "Capabilities": cfg.Capabilities} {
		if err := wire.CheckJSON(object, cfg.Limits.Depth); err != nil {
			return cfg, fmt.Errorf("%s: %w", name, err)
		}
		if !wire.IsObject(object) {
			return cfg, fmt.Errorf("%s must be a JSON object", name)
		}
	}
	return cfg, nil
}

// Transport is a transport to a server: Pipes or HTTP.
type Transport interface {
	// connect returns the carrier of one connection.
	connect(g guard) (carrier, error)
}

// carrier moves the messages of one connection. It passes the messages that it reads to
// guard.receive, and calls Conn.fail after the server has ended the connection.
type carrier interface {
	// start starts to read. ctx lasts as long as the connection.
	start(ctx context.Context)
	// send sends the request of a call. While the server does not read, send waits, until
	// ctx or the timeout of the call ends. It reports a later failure with Conn.finish.
	send(ctx context.Context, cl *call, line []byte) error
	// put sends an answer or a notification. While the server does not read, put waits,
	// until ctx ends.
	put(ctx context.Context, line []byte) error
	// offer sends a message that may be lost. It never waits.
	offer(ctx context.Context, line []byte)
	// cancel withdraws a request that was sent, and ends the work that send has begun for
	// it. It never waits.
	cancel(ctx context.Context, cl *call, reason string)
	// agreed stores the result of the handshake.
	agreed(info *Info)
	// listen starts to read messages that belong to no call. ctx lasts as long as the
	// connection.
	listen(ctx context.Context)
	// fallback reports whether initialize, which failed with err, may be tried again over
	// another form of the transport.
	fallback(ctx context.Context, err error) bool
	// close ends the connection and waits for what start began.
	close()
}

// Info contains what a server states about itself.
type Info struct {
	Era          wire.Era
	Revision     string          // revision that both sides agreed on
	Server       json.RawMessage // the server's name and version, an object; nil if the server does not state them
	Capabilities json.RawMessage // an object
	Instructions string
	Result       json.RawMessage // the whole result of initialize or server/discover
}

// Conn is one connection to one server. Its methods are safe for concurrent use.
type Conn struct {
	cfg   Config
	way   carrier
	inbox *inbox
	table
	info atomic.Pointer[Info] // nil until the handshake is over
	over chan struct{}        // closed by fail
	stop context.CancelCauseFunc
	wg   sync.WaitGroup // counts goroutines of the connection, without the carrier's
}

// Open connects to a server and agrees with it on a revision. It gives up when ctx ends. If
// it fails, it closes the transport. The connection does not end with ctx, but with Close.
func Open(ctx context.Context, t Transport, cfg Config) (*Conn, error) {
	c, life, err := begin(ctx, t, cfg)
	if err != nil {
		return nil, err
	}
	info, err := greet(ctx, c)
	if err != nil {
		c.Close()
		return nil, err
	}
	c.info.Store(info)
	c.way.agreed(info)
	if info.Era == wire.Legacy {
		if err := c.way.put(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
			c.Close()
			return nil, fmt.Errorf("notifications/initialized: %w", err)
		}
	}
	c.way.listen(life)
	if what := subscription(info); what != nil && c.cfg.OnNotification != nil && c.enter() {
		go func() {
			defer c.wg.Done()
			subscribe(life, c, what)
		}()
	}
	return c, nil
}

// begin starts a connection without its handshake. life ends when the connection ends.
func begin(ctx context.Context, t Transport, cfg Config) (c *Conn, life context.Context, err error) {
	if cfg, err = cfg.withDefaults(); err != nil {
		return nil, nil, fmt.Errorf("the configuration of a connection: %w", err)
	}
	c = &Conn{
		cfg: cfg, over: make(chan struct{}),
		inbox: &inbox{most: cfg.Limits.Queue, more: make(chan struct{}, 1)},
		table: table{open: make(map[int64]*call), cancelled: make(map[int64]struct{}), asked: make(map[string]*asked)},
	}
	if c.way, err = t.connect(guard{c}); err != nil {
		return nil, nil, err
	}
	life, c.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	c.way.start(life)
	if cfg.OnNotification != nil {
		c.wg.Go(func() { c.inbox.deliver(life, cfg.OnNotification) })
	}
	return c, life, nil
}

// Info returns what the server states about itself.
func (c *Conn) Info() Info { return *c.info.Load() }

// Changes returns how many notifications of a changed list the server has sent. When Call
// returns, Changes includes those that came before Call's answer, at least over Pipes.
func (c *Conn) Changes() int { return c.inbox.changed() }

// Done returns a channel that is closed when the connection is over.
func (c *Conn) Done() <-chan struct{} { return c.over }

// Close ends the connection and waits for all of its goroutines, including calls of
// OnRequest and OnNotification. These must therefore not call Close. Open calls get
// ErrClosed. Close may be called several times, also concurrently.
func (c *Conn) Close() {
	c.fail(ErrClosed)
	c.way.close()
	c.wg.Wait()
}

// fail ends the connection with a reason. It does not wait for goroutines.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	calls, questions := c.open, slices.Collect(maps.Values(c.asked))
	c.open = make(map[int64]*call)
	c.mu.Unlock()
	close(c.over)
	c.stop(err)
	for _, a := range questions {
		a.cancel(err)
	}
	for _, cl := range calls {
		cl.err = err
		cl.end()
	}
	if !errors.Is(err, ErrClosed) {
		c.cfg.Log.Debug("the connection to an upstream server has ended", "error", err)
	}
}

// enter registers one more goroutine, which must call wg.Done. It returns false if the
// connection is over.
func (c *Conn) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.wg.Add(1)
	return true
}
