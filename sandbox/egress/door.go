package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"belljar.dev/policies"
)

// ErrClosed is returned by the methods of a closed Door.
var ErrClosed = errors.New("the door is closed")

// Config says what a door lets through, and to whom it reports.
type Config struct {
	Egress   *policies.Egress // policy at the start; Set changes it
	Profile  string           // name of the profile, for messages
	Allowed  *Allowance       // bounds the bytes of this door and others together; nil for no bound
	Resolver Resolver         // nil for the host's resolver, without its search domains

	// Secret returns the value of a named secret. It is called when a request
	// needs the secret and has no value that was read in the last ten seconds. One
	// call runs at a time; a call that fails is made again for the next request. A
	// line end after the value is removed. Nil means that no secret exists.
	Secret func(ctx context.Context, name string) (string, error)

	// Roots are the authorities for servers to which the door itself speaks TLS: for
	// Client, and for connections that the policy has opened at the door. Nil means the
	// host's authorities.
	Roots *x509.CertPool

	// Record is called for every connection and request, and for refused names.
	// It is called from many goroutines and must not block. It may be nil.
	Record func(Record)

	Log *slog.Logger // nil for no log
}

// Door lets out of a box what the policy allows. All methods are safe for
// concurrent use.
type Door struct {
	cfg     Config
	current atomic.Pointer[snapshot]
	names   *table
	lookups *lookups
	own     *ownAddrs
	caps    caps
	blocked blocked
	told    throttle
	queries bucket // tokens for DNS queries
	free    bucket // tokens for new names that no rule spells out
	vault   *vault

	authority *authority // nil if nothing is intercepted

	fresh atomic.Int64 // number of accepted connections without a decision

	work sync.WaitGroup // flows and serving goroutines; Add is called under mu

	mu     sync.Mutex
	closed bool
	held   map[*holding]struct{}
}

// snapshot is one policy and what was derived from it. It never changes: a
// connection keeps its snapshot even if Set stores another one.
type snapshot struct {
	*policies.Egress
	limits policies.EgressLimits  // limits of Egress; small limits if it allows nothing
	port   uint16                 // a port that rules name, to find out why a name is refused
	exact  map[policies.Host]bool // hosts that a rule spells out
	client *http.Transport
}

// closedLimits are the limits of a door that lets nothing through: enough to report
// refusals.
var closedLimits = policies.EgressLimits{Conns: 16, Rate: 50, Bytes: 1, Idle: 10 * time.Second, Life: 10 * time.Second}

// New makes a door. It fails if a limit of the policy is not above zero. The caller
// must close the door.
func New(cfg Config) (*Door, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Resolver == nil {
		cfg.Resolver = hostResolver{}
	}
	d := &Door{
		cfg:     cfg,
		vault:   newVault(cfg.Secret),
		names:   newTable(),
		lookups: newLookups(cfg.Resolver),
		own:     &ownAddrs{read: net.InterfaceAddrs, keep: ownFor},
		held:    make(map[*holding]struct{}),
	}
	snap, err := d.snapshot(cfg.Egress)
	if err != nil {
		return nil, err
	}
	d.current.Store(snap)
	if cfg.Egress.Intercept {
		if d.authority, err = newAuthority(time.Now()); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// NewFor makes the door of a grant for belljar's own fetches. It calls record with the
// tenant of the grant, and allowed returns the Allowance that bounds the tenant's bytes.
// Both may be nil. The caller must close the door.
func NewFor(g policies.Grant, record func(tenant string, r Record), allowed func(policies.Grant) *Allowance) (*Door, error) {
	cfg := Config{Egress: g.Egress(), Profile: g.Profile()}
	if record != nil {
		tenant := g.Tenant()
		cfg.Record = func(r Record) { record(tenant, r) }
	}
	if allowed != nil {
		cfg.Allowed = allowed(g)
	}
	return New(cfg)
}

// Set changes what the door lets through. Open connections keep their verdict, and
// requests on them are judged under the earlier policy. New connections are judged
// under e. If e is not usable, Set returns an error and changes nothing. The caller
// must not change e afterwards.
func (d *Door) Set(e *policies.Egress) error {
	snap, err := d.snapshot(e)
	if err != nil {
		return err
	}
	if d.isClosed() {
		return ErrClosed
	}
	// Nobody would reuse an idle connection: each policy has its own transport.
	d.current.Swap(snap).client.CloseIdleConnections()
	return nil
}

// snapshot checks a policy and derives from it what the door needs often.
func (d *Door) snapshot(e *policies.Egress) (*snapshot, error) {
	if e == nil {
		return nil, errors.New("egress: no policy is given; one that allows nothing is &policies.Egress{}")
	}
	s := &snapshot{Egress: e, limits: e.Limits, exact: make(map[policies.Host]bool), port: 443}
	if e.IsZero() {
		s.limits = closedLimits
	}
	if err := checkLimits(s.limits); err != nil {
		return nil, err
	}
	for i, r := range e.Allow {
		if slices.Contains(r.Ports, 0) {
			return nil, fmt.Errorf("egress: allow rule %d (%s): names port 0, which is not a valid port", i+1, policies.Clip(r.Host, maxShown))
		}
		if h, err := policies.ParseHost(r.Host); err == nil {
			s.exact[h] = true
		}
	}
	for _, r := range e.Private {
		s.exact[r.Host] = true
	}
	if ports := e.Ports(); len(ports) > 0 && !slices.Contains(ports, s.port) {
		s.port = ports[0]
	}
	s.client = judging{d}.transport(s)
	return s, nil
}

// checkLimits returns an error if a limit does not bound anything.
func checkLimits(l policies.EgressLimits) error {
	switch {
	case l.Conns <= 0:
		return fmt.Errorf("egress: limits: connections %d: want more than 0", l.Conns)
	case !(l.Rate > 0) || math.IsInf(l.Rate, 1): // NaN is not above zero either
		return fmt.Errorf("egress: limits: rate %v: want a number above 0", l.Rate)
	case l.Bytes <= 0:
		return fmt.Errorf("egress: limits: bytes %d: want more than 0", l.Bytes)
	case l.Idle <= 0:
		return fmt.Errorf("egress: limits: idle %v: want more than 0", l.Idle)
	case l.Life <= 0:
		return fmt.Errorf("egress: limits: life %v: want more than 0", l.Life)
	}
	return nil
}

// Close closes all listeners and connections that the door serves or made, and
// waits until its goroutines have ended. Calls that wait return ErrClosed, and the
// Serve methods nil. Connections made by Dial are closed too. Close may be called
// twice.
func (d *Door) Close() error {
	d.mu.Lock()
	d.closed = true
	held := d.held
	d.held = make(map[*holding]struct{})
	d.mu.Unlock()
	for h := range held {
		h.close()
	}
	d.current.Load().client.CloseIdleConnections()
	d.work.Wait()
	return nil
}

// Undecided returns how many accepted connections have no decision yet. A client
// that connects and leaves does not wait for the decision.
func (d *Door) Undecided() int { return int(d.fresh.Load()) }
