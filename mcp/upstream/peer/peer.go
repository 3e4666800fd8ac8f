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

// Era is which half of the protocol's history Open may use.
type Era int

// The eras. A server keeps its era, so a caller may remember Info.Era for the next Open.
const (
	Auto   Era = iota // ask the server: server/discover, and initialize where that fails
	Legacy            // initialize, revisions up to 2025-11-25
	Modern            // server/discover, revision 2026-07-28
)

// Config is what a connection needs besides its transport. A zero field has the default that
// its comment names.
type Config struct {
	Client json.RawMessage // what this client says of itself: an object with name and version; {"name":"belljar","version":"0"}
	// Capabilities is what the client offers to the server, an object; {}. Requests of the
	// server for anything else are refused, whatever OnRequest could do.
	Capabilities json.RawMessage
	Era          Era
	// OnRequest answers requests of the server, each in a goroutine of its own: elicitation/create,
	// sampling/createMessage and roots/list. Its context ends when the server or the end of
	// the call withdraws the request. A *wire.Error that it returns goes to the server as it is.
	// Nil refuses all, and Call then returns a result that asks for input as it is.
	OnRequest func(ctx context.Context, r Request) (json.RawMessage, error)
	// OnNotification gets the notifications of the server but progress and cancels, one after
	// the other. It must return. Nil drops them.
	OnNotification func(n Notification)
	Limits         Limits
	Log            *slog.Logger // nothing is logged where it is nil
}

// Limits bound what a server can make this side keep or wait for. A zero field has the
// default that its comment names.
type Limits struct {
	Answer   int           // bytes of one message that answers a call; 10 MiB
	Message  int           // bytes of any other message, and of one item of a list; 1 MiB
	Depth    int           // nesting of one message, and of one item of a list; 128
	Open     int           // calls that are open at once; 128
	Requests int           // requests of the server that are open at once; 16
	Queue    int           // notifications that wait for OnNotification; 256
	Bad      int           // messages in a row that cannot be used, before the connection ends; 16
	Noise    int           // bytes that are not messages before the first message; 64 KiB
	Rounds   int           // times that a server may ask for input during one call, or get its time anew by asking; 8
	Items    int           // items of one list; 4096
	Probe    time.Duration // for server/discover, before initialize is tried as well; 2 s
	Timeout  time.Duration // of a call that names none; 120 s
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

// withDefaults fills cfg, or says what is wrong in it.
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

// Transport is a way to a server: Pipes or HTTP.
type Transport interface {
	// connect makes the carrier of one connection.
	connect(g guard) (carrier, error)
}

// carrier moves the messages of one connection. It gives the messages that it reads to
// guard.receive, and calls Conn.fail when the server has ended the connection.
type carrier interface {
	// start begins to read. ctx lives as long as the connection.
	start(ctx context.Context)
	// send sends the request of a call. It waits while the server reads nothing, until ctx or the
	// time of the call ends. A later failure is reported by Conn.finish.
	send(ctx context.Context, cl *call, line []byte) error
	// put sends an answer or a notification. It waits while the server reads nothing, until
	// ctx ends.
	put(ctx context.Context, line []byte) error
	// offer sends a message that may be lost, and never waits.
	offer(ctx context.Context, line []byte)
	// cancel withdraws a request that was sent, and ends what send has begun for it. It never
	// waits.
	cancel(ctx context.Context, cl *call, reason string)
	// agreed notes what the handshake has found.
	agreed(info *Info)
	// listen begins to read what belongs to no call. ctx lives as long as the connection.
	listen(ctx context.Context)
	// fallback reports whether initialize, which failed so, may be tried again in another
	// way.
	fallback(ctx context.Context, err error) bool
	// close ends the connection and waits for what start began.
	close()
}

// Info is what a server says of itself.
type Info struct {
	Era          wire.Era
	Revision     string          // the agreed one
	Server       json.RawMessage // its name and version, an object; nil if it does not say
	Capabilities json.RawMessage // an object
	Instructions string
	Result       json.RawMessage // the whole answer to initialize or server/discover
}

// Conn is one connection to one server. Its methods are safe for concurrent use.
type Conn struct {
	cfg   Config
	way   carrier
	inbox *inbox
	table
	info atomic.Pointer[Info] // nil before the handshake is over
	over chan struct{}        // closed by fail
	stop context.CancelCauseFunc
	wg   sync.WaitGroup // goroutines of the connection but the carrier's
}

// Open connects to a server and agrees with it on a revision, at most until ctx ends. It
// closes the transport if it fails. The connection itself does not end with ctx; Close ends
// it.
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

// begin starts a connection without its handshake. life ends when the connection does.
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

// Info returns what the server says of itself.
func (c *Conn) Info() Info { return *c.info.Load() }

// Changes returns how many notifications of a changed list the server has sent until now. When
// Call returns, those are among them that came before its answer, at least over Pipes.
func (c *Conn) Changes() int { return c.inbox.changed() }

// Done is closed when the connection is over.
func (c *Conn) Done() <-chan struct{} { return c.over }

// Close ends the connection and waits for all of its goroutines, so for OnRequest and
// OnNotification too, which must not call it. Open calls get ErrClosed. It may be called
// twice and by many.
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
		c.cfg.Log.Debug("the connection to an upstream server is over", "error", err)
	}
}

// enter lets one goroutine more begin, which must call wg.Done; false if the connection is
// over.
func (c *Conn) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.wg.Add(1)
	return true
}
