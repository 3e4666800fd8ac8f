package act

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"belljar.dev/browser"
	"belljar.dev/policies"
)

// Config configures Seats.
type Config struct {
	// Pool starts the Chromes. Required.
	Pool *browser.Pool
	// Most and TenantMost are how many seats may be open at the same time, of all tenants
	// and of one tenant; the defaults are MaxSeats and MaxTenantSeats.
	Most, TenantMost int
	// Freeze and Park are how long a seat is unused before its Chrome is frozen and before
	// it ends; the defaults are FreezeAfter and ParkAfter.
	Freeze, Park time.Duration
	// Log gets what an operator should know. If it is nil, nothing is logged.
	Log *slog.Logger
}

// Seats lends seats. Its methods are safe for concurrent use.
type Seats struct {
	cfg  Config
	quit chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	all    []*Seat
	freed  chan struct{} // closed and replaced when a seat is closed
}

// New returns Seats that have no seat yet. The caller must Close them before the Pool.
func New(cfg Config) (*Seats, error) {
	if cfg.Pool == nil {
		return nil, errors.New("make seats: no pool")
	}
	if cfg.Most < 0 || cfg.TenantMost < 0 || cfg.Freeze < 0 || cfg.Park < 0 {
		return nil, errors.New("make seats: Most, TenantMost, Freeze or Park is below zero")
	}
	cfg.Most = cmp.Or(cfg.Most, MaxSeats)
	cfg.TenantMost = cmp.Or(cfg.TenantMost, MaxTenantSeats)
	cfg.Freeze = cmp.Or(cfg.Freeze, FreezeAfter)
	cfg.Park = cmp.Or(cfg.Park, ParkAfter)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Seats{cfg: cfg, quit: make(chan struct{}), freed: make(chan struct{})}
	s.wg.Go(s.attend)
	return s, nil
}

func (s *Seats) log(what string, err error) { s.cfg.Log.Warn(what, "err", err) }

// Open opens a seat for one session and profile. The caller must Close it. Open waits at
// most SeatPatience for a free seat. The Chrome of the seat starts with the first look or
// step.
func (s *Seats) Open(ctx context.Context, g policies.Grant, o Options) (*Seat, error) {
	patience := time.NewTimer(SeatPatience)
	defer patience.Stop()
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, errClosed()
		}
		mine := 0
		for _, o := range s.all {
			if o.grant.Tenant() == g.Tenant() {
				mine++
			}
		}
		if len(s.all) < s.cfg.Most && mine < s.cfg.TenantMost {
			now := time.Now()
			seat := &Seat{pool: s.cfg.Pool, forget: s.drop, log: s.log, grant: g, opts: o, turn: make(chan struct{}, 1), quit: make(chan struct{}), used: now, since: now}
			s.all = append(s.all, seat)
			s.mu.Unlock()
			return seat, nil
		}
		freed := s.freed
		s.mu.Unlock()
		full := &Refusal{Reason: ReasonFull, Message: fmt.Sprintf("all %d browsers are in use", s.cfg.Most), Next: "wait until another session that uses one ends"}
		if mine >= s.cfg.TenantMost {
			full.Message, full.Next = fmt.Sprintf("your sessions use %d browsers, and no more may be open", mine), "end another of your sessions that uses one"
		}
		select {
		case <-freed:
		case <-s.quit:
			return nil, errClosed()
		case <-patience.C:
			return nil, full
		case <-ctx.Done():
			full.Err = context.Cause(ctx)
			return nil, full
		}
	}
}

// drop forgets a seat that is closed.
func (s *Seats) drop(seat *Seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.all)
	s.all = slices.DeleteFunc(s.all, func(o *Seat) bool { return o == seat })
	if len(s.all) < n {
		close(s.freed)
		s.freed = make(chan struct{})
	}
}

// List returns the seats that are open.
func (s *Seats) List() []Info {
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	out := make([]Info, 0, len(all))
	for _, seat := range all {
		out = append(out, seat.info())
	}
	return out
}

// attend freezes and parks the seats that nobody uses, and closes those that are too old.
func (s *Seats) attend() {
	tick := time.NewTicker(min(s.cfg.Freeze/4, s.cfg.Park/4, 5*time.Second))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.quit:
			return
		}
		s.mu.Lock()
		all := slices.Clone(s.all)
		s.mu.Unlock()
		for _, seat := range all {
			if time.Since(seat.since) > MaxAge {
				_ = seat.Close() // waits only for the Chrome of this seat
				continue
			}
			seat.rest(s.cfg.Freeze, cmp.Or(seat.opts.Park, s.cfg.Park))
		}
	}
}

// rest freezes the Chrome of a seat that was not used for the time freeze, and ends it
// after the time park.
func (s *Seat) rest(freeze, park time.Duration) {
	select {
	case s.turn <- struct{}{}:
	default:
		return // the seat is in use
	}
	defer func() { <-s.turn }()
	s.mu.Lock()
	e, idle := s.e, time.Since(s.used)
	switch {
	case e == nil || s.closed || idle < min(freeze, park):
		s.mu.Unlock()
	case idle < park:
		s.mu.Unlock()
		e.mu.Lock()
		if !e.files.loads() && len(e.equips) == 0 { // otherwise the agent waits for a file, or a frame for us
			e.lease.Freeze()
		}
		e.mu.Unlock()
	default:
		s.e, s.parked = nil, true
		s.mu.Unlock()
		e.close()
	}
}

// Close closes all seats and waits until nothing of them is left. It may be called twice.
func (s *Seats) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.quit)
	}
	all := slices.Clone(s.all)
	s.mu.Unlock()
	for _, seat := range all {
		_ = seat.Close()
	}
	s.wg.Wait()
	return nil
}
