package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp/upstream"
	"belljar.dev/policies"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// act describes what a server does after one start.
type act struct {
	start   error         // the program fails to start with this error, after the duration after
	dial    error         // the handshake fails with this error, after the duration after
	hang    string        // "start" or "dial": this step waits until its time is over
	dies    time.Duration // the program ends after it was ready for so long; 0: never
	drops   time.Duration // the connection ends after so long; 0: never
	exit    error         // error with which the program ends
	after   time.Duration // how long the start or the handshake takes
	dead    bool          // the program has ended before the handshake is over
	closing time.Duration // how long it takes to end the program
}

// world contains fake servers, and knows which of them run.
type world struct {
	script func(n int, s upstream.Spec) act // act of the start number n of a key, counted from 0

	mu      sync.Mutex
	spawned map[upstream.Key][]time.Time
	alive   map[upstream.Key]int
	wrong   []string
	closed  int
	opened  int
}

func newWorld(script func(n int, s upstream.Spec) act) *world {
	return &world{script: script, spawned: make(map[upstream.Key][]time.Time), alive: make(map[upstream.Key]int)}
}

// always returns a script that repeats one act.
func always(a act) func(int, upstream.Spec) act { return func(int, upstream.Spec) act { return a } }

func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// check fails the test if something still runs, or if something was wrong before.
func (w *world) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.wrong {
		t.Error(s)
	}
	for key, n := range w.alive {
		if n != 0 {
			t.Errorf("%d programs of %+v run on", n, key)
		}
	}
	if w.opened != w.closed {
		t.Errorf("%d connections were made and %d closed", w.opened, w.closed)
	}
}

// starts returns how often programs were started.
func (w *world) starts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, times := range w.spawned {
		n += len(times)
	}
	return n
}

// running returns how many programs run.
func (w *world) running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, one := range w.alive {
		n += one
	}
	return n
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// next returns the script's act for one more start.
func (w *world) next(s upstream.Spec) act {
	w.mu.Lock()
	n := len(w.spawned[s.Key])
	w.spawned[s.Key] = append(w.spawned[s.Key], time.Now())
	w.mu.Unlock()
	return w.script(n, s)
}

// Start implements Starter.
func (w *world) Start(ctx context.Context, s upstream.Spec) (upstream.Process, error) {
	a := w.next(s)
	if box := s.Grant.OfUpstream(); box.Server != s.Server.Name || s.Grant.Tenant() != s.Key.Tenant {
		w.fault("%+v is started with the grant of %q for %q", s.Key, box.Server, s.Grant.Tenant())
	}
	switch {
	case a.hang == "start":
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case a.start != nil:
		return nil, a.start
	}
	w.mu.Lock()
	w.alive[s.Key]++
	many := w.alive[s.Key]
	w.mu.Unlock()
	if many > 1 {
		w.fault("%d programs of %+v run at once", many, s.Key)
	}
	p := &process{ending: ending{done: make(chan struct{})}, w: w, key: s.Key, act: a}
	if a.dead {
		p.end(a.exit)
	}
	return p, nil
}

// ending is the end of a program or a connection.
type ending struct {
	done chan struct{}
	once sync.Once
	err  error
}

func (e *ending) Done() <-chan struct{} { return e.done }

func (e *ending) Err() error {
	select {
	case <-e.done:
		return e.err
	default:
		return nil
	}
}

func (e *ending) end(err error) {
	e.once.Do(func() {
		e.err = err
		close(e.done)
	})
}

// process is a fake program.
type process struct {
	ending
	w    *world
	key  upstream.Key
	act  act
	gone sync.Once
}

func (p *process) In() io.WriteCloser { return nil }
func (p *process) Out() io.Reader     { return nil }
func (p *process) Stderr(most int) []string {
	return []string{"loading", "boom\x1b[31m"}[:min(most, 2)]
}

func (p *process) Close() {
	p.end(nil)
	p.gone.Do(func() {
		_ = sleep(context.Background(), p.act.closing)
		p.w.mu.Lock()
		p.w.alive[p.key]--
		p.w.mu.Unlock()
	})
}

var errEnded = errors.New("the server has ended the connection")

// conn is a fake connection.
type conn struct {
	ending
	w    *world
	spec upstream.Spec
	p    *process
	wg   sync.WaitGroup
	stop context.CancelFunc
	shut sync.Once
}

func (c *conn) Close() {
	c.end(errors.New("closed"))
	c.stop()
	c.wg.Wait()
	c.shut.Do(func() {
		c.w.mu.Lock()
		c.w.closed++
		c.w.mu.Unlock()
	})
}

// call is a call that takes the duration d.
func (c *conn) call(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.done:
		return c.err
	}
}

// Dial implements Dialer.
func (w *world) Dial(ctx context.Context, s upstream.Spec, p upstream.Process) (*conn, error) {
	var a act
	own, _ := p.(*process)
	if own != nil {
		a = own.act
	} else {
		a = w.next(s)
	}
	if a.hang == "dial" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err := sleep(ctx, a.after); err != nil {
		return nil, err
	}
	if a.dead {
		return nil, errEnded
	}
	if a.dial != nil {
		return nil, a.dial
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &conn{ending: ending{done: make(chan struct{})}, w: w, spec: s, p: own, stop: stop}
	w.mu.Lock()
	w.opened++
	w.mu.Unlock()
	for d, end := range map[time.Duration]func(){a.dies: func() {
		if own != nil {
			own.end(a.exit)
		}
	}, a.drops: func() { c.end(errEnded) }} {
		if d > 0 {
			c.wg.Go(func() {
				if sleep(life, d) == nil {
					end()
				}
			})
		}
	}
	return c, nil
}

const rules = `version: 1
defaults: {decision: allow, profile: offline}
profiles: {offline: {fs: {system: true, workspace: rw}}, net: {net: {mode: proxy, allow: [a.example]}}}
upstreams: {servers: {net: {profile: net}}}
`

func policy(t testing.TB) *policies.Policy {
	t.Helper()
	p, err := policies.Parse("policy.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// grant returns the grant of a tenant's call.
func grant(t testing.TB, tenant string) policies.Grant {
	t.Helper()
	return policy(t).Decide(policies.Facts{Tenant: tenant, Tool: "mcp_x_y", Upstream: "x"}).Grant
}

// server returns an entry with the settings of a policy that sets none.
func server(t testing.TB, name string, change ...func(s *upstream.Server)) upstream.Server {
	t.Helper()
	s := upstream.Server{Name: name, ID: name, Trusted: true, Settings: policy(t).Upstreams().Of(name, true)}
	for _, f := range change {
		f(&s)
	}
	return s
}

func share(how policies.Share) func(s *upstream.Server) {
	return func(s *upstream.Server) { s.Settings.Share = how }
}

// open returns a pool with the servers of a world, without jitter.
func open(t testing.TB, w *world, cfg upstream.Config[*conn], servers ...upstream.Server) *upstream.Pool[*conn] {
	t.Helper()
	p := policy(t)
	cfg.Starter, cfg.Dialer = w, w
	if cfg.Grant == nil {
		cfg.Grant = func(tenant string, s upstream.Server) (policies.Grant, error) {
			return p.Upstreams().Grant(tenant, policies.UpstreamBox{Server: s.Name, Trusted: s.Trusted})
		}
	}
	if cfg.Chance == nil {
		cfg.Chance = func() float64 { return 0.5 }
	}
	pool := upstream.NewPool(cfg)
	pool.Set(servers)
	return pool
}

var ann = upstream.Caller{Tenant: "t", Principal: "ann", Session: "s1"}

// bubble runs a test with its own clock, and checks that no server of its world is left
// running.
func bubble(t *testing.T, w *world, cfg upstream.Config[*conn], servers []upstream.Server, f func(t *testing.T, pool *upstream.Pool[*conn])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		pool := open(t, w, cfg, servers...)
		f(t, pool)
		pool.Close()
		pool.Close() // Close may be called twice
		w.check(t)
	})
}

// states returns the states of a pool's instances as texts.
func states(pool *upstream.Pool[*conn]) (all []string) {
	for _, s := range pool.Status() {
		all = append(all, s.Server+" "+string(s.State))
	}
	return all
}
