package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"belljar.dev/internal/order"
	"belljar.dev/policies"
)

// Errors of a Pool.
var (
	// ErrClosed is returned to callers after Close.
	ErrClosed = errors.New("other people's servers are no longer available: belljar is shutting down")
	// ErrUnknown is wrapped by the error for a server that is not in the configuration.
	ErrUnknown = errors.New("the server is not in the configuration")
)

// The reasons why an instance ends.
var (
	errRemoved  = errors.New("the server was removed from the configuration")
	errReplaced = errors.New("the entry of the server, or the policy for it, was changed")
	errRestart  = errors.New("a person restarted the server")
	errStopped  = errors.New("a person stopped the server")
	errSession  = errors.New("the session has ended")
)

const (
	defaultWait = policies.DefaultUpstreamWait
	defaultMost = 64
)

// Config is the configuration of a pool.
type Config[C Conn] struct {
	Starter Starter
	Dialer  Dialer[C]
	// Grant returns the policy's grant of a server's box for a tenant. It is called with a
	// lock held, and must neither wait nor call the pool.
	Grant func(tenant string, s Server) (policies.Grant, error)
	// Changed gets each change of an instance's state, in the goroutine of the instance.
	// Only the status of a failure has Stderr. Changed must return quickly, and must not
	// call the pool. Nil drops the changes.
	Changed func(s Status)
	Wait    time.Duration  // longest wait of Gather; default 2 s
	Most    int            // most instances of one tenant; default 64
	Chance  func() float64 // returns a random number from 0 to 1, for the jitter of pauses; default rand.Float64
}

// Pool contains the servers of one configuration and their instances. Its methods are safe
// for concurrent use.
type Pool[C Conn] struct {
	cfg Config[C]
	wg  sync.WaitGroup // counts the goroutines of instances

	mu      sync.Mutex
	servers map[string]Server // guarded by mu
	// guarded by mu: instances that are not at rest, and those that have failed; at most
	// cfg.Most for each tenant
	instances map[Key]*instance[C]
	closed    bool // guarded by mu
}

// NewPool returns a pool without servers.
func NewPool[C Conn](cfg Config[C]) *Pool[C] {
	cfg.Wait = cmp.Or(cfg.Wait, defaultWait)
	cfg.Most = cmp.Or(cfg.Most, defaultMost)
	if cfg.Chance == nil {
		cfg.Chance = rand.Float64
	}
	return &Pool[C]{cfg: cfg, instances: make(map[Key]*instance[C])}
}

// Set replaces the servers. If a server is removed or has another ID, its instances end,
// together with the calls that use them; other instances continue. Set does not wait for
// the instances to end.
func (p *Pool[C]) Set(servers []Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers = make(map[string]Server, len(servers))
	for _, s := range servers {
		p.servers[s.Name] = s
	}
	for _, i := range p.instances {
		switch s, there := p.servers[i.spec.Server.Name]; {
		case !there:
			p.dismiss(i, errRemoved)
		case s.ID != i.spec.Server.ID:
			p.dismiss(i, errReplaced)
		}
	}
}

// Do calls f with a connection to the server that the caller may use. If no instance runs
// for the caller, Do starts the server, and waits until the start has succeeded or failed.
// ctx bounds the wait and f. If the server cannot be used, the error is an *Unavailable,
// whose text is for the agent. If the server ends while f runs, the context of f ends too.
//
// g is the grant of the call. A server that may do more than the session is refused, and
// not started.
func (p *Pool[C]) Do(ctx context.Context, g policies.Grant, who Caller, server string, f func(ctx context.Context, conn C) error) error {
	for {
		i, err := p.demand(ctx, who, server, g.MayUse)
		if err != nil {
			return err
		}
		if err = i.do(ctx, f); !errors.Is(err, errGone) {
			return err
		}
		// The instance ended before the call could begin. Each further round waits for an
		// end and a start.
	}
}

// Gather starts the named servers that do not run for the caller, all at the same time.
// Without names it starts all servers. It waits until each start has succeeded or failed,
// at most for Config.Wait. Config.Changed gets later changes. The result has one status for
// each server.
func (p *Pool[C]) Gather(ctx context.Context, who Caller, servers ...string) []Status {
	if len(servers) == 0 {
		servers = p.names(func(Server) bool { return true })
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Wait)
	defer cancel()
	all := make([]Status, len(servers))
	begun := make([]*instance[C], len(servers))
	for n, name := range servers {
		i, err := p.demand(ctx, who, name, anyGrant)
		if err != nil {
			all[n] = Status{Key: Key{Server: name, Caller: who}, State: Failed, Reason: err.Error()}
			continue
		}
		begun[n] = i
	}
	for n, i := range begun {
		if i != nil {
			i.settle(ctx, nil)
			all[n] = i.status()
		}
	}
	return all
}

// Begin starts the servers that the policy starts at the beginning of a session. It does
// not wait for them.
func (p *Pool[C]) Begin(ctx context.Context, who Caller) {
	for _, name := range p.names(func(s Server) bool { return s.Settings.Eager }) {
		// an error is reported when a call needs the server
		_, _ = p.demand(ctx, who, name, anyGrant)
	}
}

// End ends the instances that run for one session only.
func (p *Pool[C]) End(tenant, session string) {
	p.endAll(func(i *instance[C]) bool {
		return session != "" && i.spec.Key.Tenant == tenant && i.spec.Key.Session == session
	}, errSession)
}

// Restart ends all instances of a server, forgets their failures and holds, and starts new
// instances in their place. It returns how many there were. It does not wait.
func (p *Pool[C]) Restart(ctx context.Context, server string) int {
	keys := p.endAll(func(i *instance[C]) bool { return i.spec.Key.Server == server }, errRestart)
	for _, key := range keys {
		_, _ = p.demand(ctx, key.Caller, server, anyGrant) // the same key as before
	}
	return len(keys)
}

// Stop ends all instances of a server, and forgets their failures and holds. It returns how
// many there were. It does not wait. A later call that needs the server starts it.
func (p *Pool[C]) Stop(server string) int {
	return len(p.endAll(func(i *instance[C]) bool { return i.spec.Key.Server == server }, errStopped))
}

// Logs returns the last lines that the instances of a server have written to standard
// error, in the order of their keys.
func (p *Pool[C]) Logs(server string, lines int) (all []Log) {
	p.mu.Lock()
	instances := slices.Collect(maps.Values(p.instances))
	p.mu.Unlock()
	for _, i := range instances {
		if i.spec.Key.Server == server {
			all = append(all, i.log(lines))
		}
	}
	order.By(all, func(a, b *Log) int { return a.Key.compare(b.Key) })
	return all
}

// Status returns the status of all instances, and of all servers without an instance, in
// the order of their keys.
func (p *Pool[C]) Status() []Status {
	p.mu.Lock()
	instances := slices.Collect(maps.Values(p.instances))
	idle := maps.Clone(p.servers)
	p.mu.Unlock()
	var all []Status
	for _, i := range instances {
		all = append(all, i.status())
		delete(idle, i.spec.Server.Name)
	}
	for name := range idle {
		all = append(all, Status{Key: Key{Server: name}, State: Off, Reason: "it is not in use"})
	}
	order.By(all, func(a, b *Status) int { return a.Key.compare(b.Key) })
	return all
}

// Close ends all instances and waits until nothing is left of them. Running calls end with
// ErrClosed as the reason, and later calls get ErrClosed. It may be called several times,
// also concurrently.
func (p *Pool[C]) Close() {
	p.mu.Lock()
	p.closed = true
	for _, i := range p.instances {
		p.dismiss(i, ErrClosed)
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// names returns the names of the servers for which of returns true, sorted.
func (p *Pool[C]) names(of func(Server) bool) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for name, s := range p.servers {
		if of(s) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// endAll ends the instances for which of returns true, and returns their keys.
func (p *Pool[C]) endAll(of func(i *instance[C]) bool, why error) (keys []Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, i := range p.instances {
		if !i.ended && of(i) {
			p.dismiss(i, why)
			keys = append(keys, key)
		}
	}
	return keys
}

// dismiss ends an instance. The caller holds mu.
func (p *Pool[C]) dismiss(i *instance[C], why error) {
	i.ended = true
	i.end(why)
	if i.atRest() {
		p.forget(i)
	}
}

// forget removes an instance from the pool, unless another instance has already taken its
// place. The caller holds mu.
func (p *Pool[C]) forget(i *instance[C]) {
	if p.instances[i.spec.Key] == i {
		delete(p.instances, i.spec.Key)
	}
}

// anyGrant lets demand start a server with any grant: no call uses the server yet.
func anyGrant(policies.Grant) error { return nil }

// demand returns the instance that serves a caller, and starts one if necessary. may can
// refuse the grant of the server's box, before anything is started.
func (p *Pool[C]) demand(ctx context.Context, who Caller, server string, may func(policies.Grant) error) (*instance[C], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	s, ok := p.servers[server]
	if !ok {
		return nil, fmt.Errorf("call the server %s: %w. Nothing was called", Line(server), ErrUnknown)
	}
	key := keyOf(&s, who)
	last := p.instances[key]
	var m machine
	var before <-chan struct{}
	if last != nil {
		state, record := last.record()
		if !last.ended && state != Off {
			return last, refused(server, may(last.spec.Grant))
		}
		if before = last.gone; !last.ended {
			m = record // nobody needed the instance while it failed
		}
	}
	grant, err := p.cfg.Grant(who.Tenant, s)
	if err == nil {
		err = refused(server, may(grant))
	}
	if err != nil {
		return nil, err
	}
	if last == nil && !p.room(who.Tenant) {
		return nil, fmt.Errorf("start the server %s: %d servers are already running for tenant %s. Nothing was called. Retry when one of them is idle", Line(server), p.cfg.Most, who.Tenant)
	}
	i := newInstance(Spec{Key: key, Server: s, Grant: grant}, &p.cfg, m, before)
	// The instance outlives the call that starts it.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	i.end = end
	p.instances[key] = i
	p.wg.Go(func() {
		defer end(nil)
		i.run(life)
		p.mu.Lock()
		defer p.mu.Unlock()
		if i.ended || i.clean() {
			p.forget(i)
		}
	})
	return i, nil
}

// refused returns the error of a call of a server that may do more than the session; nil if
// err is nil.
func refused(server string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("call the server %s: %w. Nothing was called", Line(server), err)
}

// room reports whether a tenant may have one more instance. If necessary, the instance that
// failed the longest ago is forgotten. The caller holds mu.
func (p *Pool[C]) room(tenant string) bool {
	var oldest *instance[C]
	var since time.Time
	n := 0
	for _, i := range p.instances {
		if i.spec.Key.Tenant != tenant {
			continue
		}
		n++
		if _, m := i.record(); i.atRest() && (oldest == nil || m.since.Before(since)) {
			oldest, since = i, m.since
		}
	}
	if n < p.cfg.Most {
		return true
	}
	if oldest != nil {
		p.forget(oldest)
	}
	return oldest != nil
}
