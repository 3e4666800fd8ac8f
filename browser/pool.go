package browser

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// Config configures a Pool.
type Config struct {
	// Supervisor opens the boxes in which Chromes run. Required.
	Supervisor *sandbox.Supervisor
	// Program is the path of Chrome; the default is the result of Find at the first call.
	Program string
	// Check reports why a path must not be used for Chrome, for example because a box can
	// write it. A nil Check allows every path. It is not called for Program.
	Check func(path string) error
	// Slots is how many pages are loaded at the same time; the default is the number of
	// CPUs, at most 16.
	Slots int
	// Chromes is how many Chromes run at the same time for all tenants, without those that
	// only finish their last pages; the default is 4, and at least Slots.
	Chromes int
	// Queue is how many calls of one tenant may wait at the same time; the default is 64. A
	// further call fails immediately with KindFull.
	Queue int
	// Pages is how many pages a Chrome loads before another replaces it; the default is
	// 500.
	Pages int
	// Age is how long a Chrome lives before another replaces it; the default is 30 minutes.
	Age time.Duration
	// Memory is how many bytes a Chrome that loads no page may use before another replaces
	// it; the default is 768 MiB.
	Memory int64
	// Idle is how long a Chrome lives without a call; the default is 2 minutes.
	Idle time.Duration
	// Log gets what an operator should know. If it is nil, nothing is logged.
	Log *slog.Logger
}

// Pool lends pages of Chromes. Chromes start when they are first needed. Its
// methods are safe for concurrent use.
type Pool struct {
	cfg   Config
	turns *turns
	wg    sync.WaitGroup // counts calls and goroutines, for Close
	quit  chan struct{}  // closed by Close

	mu       sync.Mutex
	closed   bool
	names    int                   // number of boxes that have been named
	program  string                // path of the program that was found
	current  map[string]*chrome    // by key
	starting map[string]*starting  // by key
	all      map[*chrome]time.Time // all Chromes, including those that finish their last pages
	seats    map[*Seat]func()      // functions that end them
	bare     error                 // why no Chrome can have its own sandbox on this host; nil until that is known
	stats    Stats
}

// starting is a Chrome that is being started and for which calls wait.
type starting struct {
	done chan struct{}
	ch   *chrome
	err  error
}

// Stats contains counts since the Pool was made, and counts of what exists now.
type Stats struct {
	Chromes  int // number of Chromes that run
	Busy     int // number of pages that are lent
	Warm     int // number of pages that wait for a call
	Started  int // number of Chromes that were started since the Pool was made
	Died     int // number of Chromes that ended by themselves since then
	Recycled int // number of Chromes that were replaced by others since then
	Hung     int // number of pages that were given up since then because they did not answer
	Pages    int // number of pages that were lent since then
}

// New returns a Pool. It starts nothing, and needs no Chrome: without a Chrome, Load fails
// with KindAbsent. The caller must Close the Pool before its Supervisor.
func New(cfg Config) (*Pool, error) {
	if cfg.Supervisor == nil {
		return nil, errors.New("make browser pool: no supervisor")
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Slots", int64(cfg.Slots)},
		{"Chromes", int64(cfg.Chromes)},
		{"Queue", int64(cfg.Queue)},
		{"Pages", int64(cfg.Pages)},
		{"Age", int64(cfg.Age)},
		{"Memory", cfg.Memory},
		{"Idle", int64(cfg.Idle)},
	} {
		if n.value < 0 {
			return nil, fmt.Errorf("make browser pool: %s is below zero", n.name)
		}
	}
	orElse(&cfg.Slots, min(runtime.NumCPU(), 16))
	orElse(&cfg.Chromes, 4)
	cfg.Chromes = max(cfg.Chromes, cfg.Slots) // so that every turn finds a Chrome, or room for one
	orElse(&cfg.Queue, 64)
	orElse(&cfg.Pages, 500)
	orElse(&cfg.Age, 30*time.Minute)
	orElse(&cfg.Memory, 768<<20)
	orElse(&cfg.Idle, 2*time.Minute)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Pool{
		cfg: cfg, turns: newTurns(cfg.Slots, cfg.Queue), quit: make(chan struct{}),
		current: map[string]*chrome{}, starting: map[string]*starting{}, all: map[*chrome]time.Time{}, seats: map[*Seat]func(){},
	}, nil
}

func orElse[T comparable](v *T, other T) {
	var zero T
	if *v == zero {
		*v = other
	}
}

// Stats returns the counts as they are now.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	for ch := range p.all {
		s.Chromes++
		s.Busy += ch.live
		s.Warm += len(ch.ready)
	}
	return s
}

// keyOf returns the key of the Chromes for a grant. Tenants never share a Chrome, and
// neither do profiles, since the door judges a box and not a page.
func keyOf(g policies.Grant) string {
	return strconv.Quote(g.Tenant()) + g.Profile() + " " + strconv.FormatBool(g.NestsNamespaces()) + strconv.Itoa(int(g.Network()))
}

// borrow returns a page of a Chrome for a grant. The Chrome runs already or is started now.
// The caller must return the page.
func (p *Pool) borrow(ctx context.Context, g policies.Grant, progress func(Stage)) (*tab, bool, error) {
	ch, cold, err := p.chrome(ctx, g, progress)
	if err != nil {
		return nil, cold, err
	}
	t := p.ready(ctx, ch)
	if t == nil {
		if t, err = newTab(ctx, ch); err != nil {
			p.back(ctx, ch, nil)
			return nil, cold, err
		}
	}
	return t, cold, nil
}

// chrome returns a Chrome for a grant, and counts one more lent page for it.
func (p *Pool) chrome(ctx context.Context, g policies.Grant, progress func(Stage)) (*chrome, bool, error) {
	key, cold := keyOf(g), false
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, cold, errClosed()
		}
		ch := p.current[key]
		if ch != nil && !ch.dead() && ch.grant.Covers(g) {
			ch.live++
			ch.pages++
			p.stats.Pages++
			p.mu.Unlock()
			return ch, cold, nil
		}
		if ch != nil {
			p.retire(ch)
		}
		s := p.starting[key]
		if s == nil {
			s = p.start(ctx, key, g)
		}
		p.mu.Unlock()
		cold = true
		if progress != nil {
			progress(StageStarting)
		}
		select {
		case <-s.done:
			if s.err != nil {
				return nil, cold, s.err
			}
		case <-ctx.Done():
			return nil, cold, context.Cause(ctx)
		}
	}
}

// start begins to start a Chrome. The start continues if its caller gives up, since the
// next call needs the Chrome. p.mu is held.
func (p *Pool) start(ctx context.Context, key string, g policies.Grant) *starting {
	s := &starting{done: make(chan struct{})}
	p.starting[key] = s
	p.makeRoom()
	p.names++
	id := "browser-" + strconv.Itoa(p.names)
	p.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startPatience+5*time.Second)
		defer cancel()
		stop := make(chan struct{})
		defer close(stop)
		p.wg.Go(func() {
			select {
			case <-p.quit:
				cancel()
			case <-stop:
			}
		})
		ch, err := p.launch(ctx, id, g)
		p.mu.Lock()
		delete(p.starting, key)
		if err == nil {
			p.stats.Started++
			ch.key, ch.used = key, time.Now()
			p.all[ch] = ch.used
			p.current[key] = ch
			if p.closed {
				p.retire(ch)
				err = errClosed()
			} else {
				p.wg.Go(func() { p.attend(context.WithoutCancel(ctx), ch) })
			}
		}
		s.ch, s.err = ch, err
		p.mu.Unlock()
		close(s.done)
		if err != nil {
			p.cfg.Log.Error("start browser", "box", id, "err", err)
		}
	})
	return s
}

// Chrome does not start with less memory or fewer processes.
const (
	leastMemory = 256 << 20
	leastPids   = 128
)

// makeRoom retires the Chrome that was idle longest if there are as many as allowed. p.mu
// is held.
func (p *Pool) makeRoom() {
	if len(p.current)+len(p.starting) <= p.cfg.Chromes {
		return
	}
	var oldest *chrome
	for _, ch := range p.current {
		if ch.live == 0 && (oldest == nil || ch.used.Before(oldest.used)) {
			oldest = ch
		}
	}
	if oldest != nil {
		p.retire(oldest)
	}
}

// back takes back a page that a call no longer uses. A nil tab means that the call got no
// page.
func (p *Pool) back(ctx context.Context, ch *chrome, t *tab) {
	disposed := true
	if t != nil && !ch.dead() {
		disposed = ch.dispose(context.WithoutCancel(ctx), t)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ch.live--
	ch.used = time.Now()
	select {
	case ch.poke <- struct{}{}:
	default:
	}
	switch {
	case ch.dead() && !ch.retired:
		p.stats.Died++
		p.retire(ch)
	case ch.retired && (ch.live == 0 || ch.dead()):
		p.bury(ch)
	case !disposed && !ch.retired:
		// A page that Chrome does not close goes on using processor time.
		p.cfg.Log.Warn("browser does not close a page", "box", ch.box.ID())
		p.stats.Recycled++
		p.retire(ch)
	}
}

// Close ends all Chromes and waits until nothing of them is left. Calls that run fail with
// KindClosed. It may be called twice and concurrently.
func (p *Pool) Close() error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.quit)
		for ch := range p.all {
			ch.kill()
			p.retire(ch)
		}
		for _, end := range p.seats {
			p.wg.Go(end)
		}
	}
	p.mu.Unlock()
	p.wg.Wait()
	return nil
}
