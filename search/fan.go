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

// Bounds of a query.
const (
	DefaultResults = 10
	MaxResults     = 50
	DefaultTimeout = 2500 * time.Millisecond
	MinTimeout     = 100 * time.Millisecond
	MaxTimeout     = 10 * time.Second
	MaxQuery       = 2048 // bytes of its text; engines take less, and the text is cut for them
	MaxPage        = 10
	MaxDomains     = 50 // domains in each list
)

const (
	flightsMost      = 64 // queries under way, including those that only wait for late answers
	flightsPerTenant = 16
)

// ErrClosed is returned by Search and Watch if the Fan is closed.
var ErrClosed = errors.New("search is closed")

// ErrBusy is returned by Search and Watch if too many queries are under way.
var ErrBusy = errors.New("too many searches are under way; try again in a few seconds")

// NotAllowedError means that the grant allows no engine to be asked.
type NotAllowedError struct {
	Profile string
	Engines []string // names of the engines that the query would have asked
}

// Error does not contain the query.
func (e *NotAllowedError) Error() string {
	return "no search engine may be asked"
}

// QueryError describes what is wrong with a query, for the caller. It names the argument as
// it is called on the wire.
type QueryError struct{ Argument, Problem string }

// Error returns the argument and the problem.
func (e *QueryError) Error() string { return e.Argument + ": " + e.Problem }

// DefaultUserAgent is the name that belljar sends to engines. It has the form in which
// well-behaved programs name themselves, and is not that of a browser: engines detect
// clients whose headers are those of a browser and whose TLS is not.
const DefaultUserAgent = "Mozilla/5.0 (compatible; belljar; +https://belljar.dev/search)"

// Config contains what a Fan needs.
type Config struct {
	// Engines returns the engines to ask. It is called for each query, so that changes of
	// the engine files take effect immediately.
	Engines func() *engine.Set
	// Keys returns the operator's keys and addresses of engines. It is called for each
	// query. nil means that there are no keys.
	Keys      func() engine.Keys
	State     string  // directory in which the health of engines is kept after the program ends; empty to keep none
	UserAgent string  // empty means DefaultUserAgent
	Browser   Browser // asked for pages of engines that refuse plain requests; may be nil

	// Record is called for every connection and request to an engine, without the path. It
	// is called from many goroutines and must not block. It may be nil, and is not used if
	// Door is set.
	Record func(tenant string, r egress.Record)
	// Allowed returns the allowance that bounds a tenant's bytes in an hour. It is called
	// when a door is opened for the tenant. It may be nil, and is not used if Door is set.
	Allowed func(g policies.Grant) *egress.Allowance

	// Door makes the way to the engines for a grant. nil means the egress door; any other
	// is for tests. It is called with a lock held, so it must not wait for anything.
	Door func(g policies.Grant) (Door, error)

	Log *slog.Logger // log of the operator; nil discards it. No query is written to it
}

// Fan asks many engines at the same time and merges their answers. Its methods are safe for
// concurrent use.
type Fan struct {
	cfg     Config
	doors   egress.Loans[Door]
	cookies *cookies
	book    *book // health of the engines
	cache   *cache
	mark    func(tenant string, parts ...any) mark // makes the key of a query
	parsing chan struct{}                          // one slot for each processor

	work sync.WaitGroup // waits for the flights; added to under mu

	sizes    sizes
	patience time.Duration // time that engines get at least, even if the query's timeout is shorter

	mu      sync.Mutex
	closed  bool
	flights map[mark]*flight     // flights that a caller can join
	active  map[*flight]struct{} // all flights that have not ended
	tenants map[string]int       // number of flights of each tenant
	stored  time.Time            // time when the book was last written
}

// New returns a fan. The caller must Close it.
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
		flights:  make(map[mark]*flight), active: make(map[*flight]struct{}), tenants: make(map[string]int),
	}
	if cfg.State != "" {
		if err := f.book.load(cfg.State); err != nil {
			cfg.Log.Warn("the stored health of search engines cannot be read", "err", err)
		}
	}
	return f, nil
}

// Close cancels all queries and waits until nothing runs any more, which does not take
// long. Callers that wait for a query get ErrClosed. Close may be called twice.
func (f *Fan) Close() error {
	f.mu.Lock()
	again := f.closed
	f.closed = true
	for fl := range f.active {
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

// Health returns the state of all engines.
func (f *Fan) Health() []Health { return f.book.snapshot(f.cfg.Engines().All(), time.Now()) }
