package search

import (
	"cmp"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
	"belljar.dev/search/engine"
)

// The bounds of a query.
const (
	DefaultResults = 10
	MaxResults     = 50
	DefaultTimeout = 2500 * time.Millisecond
	MinTimeout     = 100 * time.Millisecond
	MaxTimeout     = 10 * time.Second
	MaxQuery       = 2048 // bytes of its text; engines take less and cut it
	MaxPage        = 10
	MaxDomains     = 50 // of each list
)

const (
	flightsMost      = 64 // queries under way, with what still comes in after their reports
	flightsPerTenant = 16
)

// ErrClosed is what the methods of a closed Fan return.
var ErrClosed = errors.New("search is closed")

// ErrBusy is what Search returns where too many queries are under way.
var ErrBusy = errors.New("too many searches are under way; try again in a few seconds")

// NotAllowedError says that the grant lets no engine be asked.
type NotAllowedError struct {
	Profile string
	Engines []string // that would have been asked
}

// Error says so without the query.
func (e *NotAllowedError) Error() string {
	return "no search engine may be asked"
}

// QueryError says what is wrong with a query, for whoever asked. It names the
// argument as it stands on the wire.
type QueryError struct{ Argument, Problem string }

// Error is the argument and the problem.
func (e *QueryError) Error() string { return e.Argument + ": " + e.Problem }

// DefaultUserAgent is the name that belljar gives to engines. It is the form in
// which well-behaved programs name themselves, and no browser's: one that
// looks like a browser in its headers and not in its TLS is what engines look
// for.
const DefaultUserAgent = "Mozilla/5.0 (compatible; belljar; +https://belljar.dev/search)"

// Config says what a Fan works with.
type Config struct {
	// Engines returns the engines to ask. It is called for each query, so that changes
	// of their files count at once.
	Engines func() *engine.Set
	// Keys are the operator's keys and addresses of engines, asked for each query;
	// nil for no keys.
	Keys      func() engine.Keys
	State     string  // directory where the health of engines outlives the program; empty for none
	UserAgent string  // empty for DefaultUserAgent
	Browser   Browser // the second lane; nil for none

	// Record gets every connection and request to an engine, without its
	// path. It is called from many goroutines and must not block. It may be nil.
	Record func(tenant string, r egress.Record)
	// Allowed returns what bounds the bytes of a tenant in an hour, where a door is opened
	// for it. It may be nil, and is not used with a Door of your own.
	Allowed func(g policies.Grant) *egress.Allowance

	// Door makes the way to the engines for a grant; nil is the egress door,
	// and anything else is for tests. It must open nothing that takes time.
	Door func(g policies.Grant) (Door, error)

	Log *slog.Logger // of an operator; nil discards them. No query is written to it
}

// Fan asks many engines at once and merges what they answer. Its methods are
// safe for concurrent use.
type Fan struct {
	cfg     Config
	doors   egress.Loans[Door]
	cookies *cookies
	book    *book
	cache   *cache
	mark    func(tenant string, parts ...any) mark
	parsing chan struct{} // a slot for each processor

	work sync.WaitGroup // flights; added to under mu

	sizes    sizes
	patience time.Duration // how long engines have, if the query gives them less

	mu      sync.Mutex
	closed  bool
	flights map[mark]*flight     // that can be joined
	under   map[*flight]struct{} // all
	tenants map[string]int       // flights of each
	stored  time.Time            // when the book was written
}

// New makes a fan, which must be closed.
func New(cfg Config) (*Fan, error) {
	if cfg.Engines == nil {
		return nil, errors.New("search: no engines are given")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Keys == nil {
		cfg.Keys = func() engine.Keys { return nil }
	}
	cfg.UserAgent = cmp.Or(cfg.UserAgent, DefaultUserAgent)
	if cfg.Door == nil {
		cfg.Door = egressDoor(&cfg)
	}
	f := &Fan{
		sizes: sizes{last: make(map[string]int64)},
		cfg:   cfg, cookies: newCookies(), book: newBook(), cache: newCache(),
		mark: newMarker(), parsing: make(chan struct{}, runtime.GOMAXPROCS(0)),
		patience: DefaultTimeout,
		flights:  make(map[mark]*flight), under: make(map[*flight]struct{}), tenants: make(map[string]int),
	}
	if cfg.State != "" {
		if err := f.book.load(cfg.State); err != nil {
			cfg.Log.Warn("the health of search engines is not known from before", "err", err)
		}
	}
	return f, nil
}

// Close cancels what is under way and waits until nothing runs any more, which
// is soon. Queries that wait get ErrClosed. Twice is fine.
func (f *Fan) Close() error {
	f.mu.Lock()
	again := f.closed
	f.closed = true
	for fl := range f.under {
		fl.cancel(ErrClosed)
	}
	f.mu.Unlock()
	f.work.Wait()
	if again {
		return nil
	}
	err := f.doors.Close()
	if f.cfg.State != "" {
		err = errors.Join(err, f.book.store(f.cfg.State))
	}
	return err
}

// Health is how the engines stand.
func (f *Fan) Health() []Health { return f.book.snapshot(f.cfg.Engines().All(), time.Now()) }
