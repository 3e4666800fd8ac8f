package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
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
		cfg.Door = egressDoor(cfg.Record)
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

// Search asks the engines that a query suits and the grant lets out, and
// returns when those that answer as a rule have answered, or its time is up.
// The same query of the same tenant a moment later is answered from memory.
//
// The error is a *QueryError, a *NotAllowedError, an *UnavailableError where no
// engine that counts answered, ErrBusy, ErrClosed or the cause of ctx. None
// holds anything of the query.
func (f *Fan) Search(ctx context.Context, g policies.Grant, q Query) (*Report, error) {
	return f.Watch(ctx, g, q, nil)
}

// Progress is that one engine has answered: the Done-th of Total.
type Progress struct {
	Asked
	Done, Total int
}

// Watch is Search, and reports each engine as it answers. tell is not called
// any more once Watch has returned, and must not block. It may be nil.
func (f *Fan) Watch(ctx context.Context, g policies.Grant, q Query, tell func(Progress)) (*Report, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	q, err := settle(q)
	if err != nil {
		return nil, err
	}
	p, err := f.plan(g, q)
	if err != nil {
		return nil, err
	}
	if r, age, ok := f.cache.get(g.Tenant(), p.mark, time.Now(), false); ok {
		return r.again(age, false).cut(q.MaxResults), nil
	}
	fl, err := f.join(ctx, p)
	if err != nil {
		return nil, err
	}
	defer fl.watch(tell)()
	select {
	case <-fl.ready:
		f.leave(fl)
		if fl.err != nil {
			return nil, fl.err
		}
		return fl.report.cut(q.MaxResults), nil
	case <-ctx.Done():
		// The last who waits ends it, and waits until it has.
		if f.leave(fl) {
			<-fl.done
		}
		return nil, context.Cause(ctx)
	}
}

// settle checks a query and fills in what it leaves open.
func settle(q Query) (Query, error) {
	bad := func(argument, format string, args ...any) (Query, error) {
		return q, &QueryError{argument, fmt.Sprintf(format, args...)}
	}
	switch n := len(q.Text); {
	case clean(q.Text, MaxQuery) == "":
		return bad("query", "it is empty; say what to search for")
	case n > MaxQuery:
		return bad("query", "it has %d bytes, and %d is the most; search for the words that matter", n, MaxQuery)
	}
	q.MaxResults = cmp.Or(q.MaxResults, DefaultResults)
	q.Page = cmp.Or(q.Page, 1)
	q.Timeout = cmp.Or(q.Timeout, DefaultTimeout)
	q.Category = cmp.Or(q.Category, "general")
	q.SafeSearch = cmp.Or(q.SafeSearch, "moderate")
	switch {
	case q.MaxResults < 1 || q.MaxResults > MaxResults:
		return bad("max_results", "got %d, want 1 to %d", q.MaxResults, MaxResults)
	case q.Page < 1 || q.Page > MaxPage:
		return bad("page", "got %d, want 1 to %d", q.Page, MaxPage)
	case q.Timeout < MinTimeout || q.Timeout > MaxTimeout:
		return bad("timeout_ms", "got %d, want %d to %d milliseconds", q.Timeout.Milliseconds(), MinTimeout.Milliseconds(), MaxTimeout.Milliseconds())
	}
	for _, c := range []struct {
		name, got string
		want      []string
	}{
		{"category", q.Category, []string{"general", "code", "academic", "news"}},
		{"safesearch", q.SafeSearch, []string{"off", "moderate", "strict"}},
		{"time_range", q.TimeRange, []string{"", "day", "week", "month", "year"}},
	} {
		if !slices.Contains(c.want, c.got) {
			return bad(c.name, "got %q, want one of %s", policies.Clip(c.got, 20), listed(c.want))
		}
	}
	if !code(q.Language, 2, 3) {
		return bad("language", "got %q, want a code of two or three letters as \"en\"", policies.Clip(q.Language, 20))
	}
	if !code(q.Region, 2, 2) {
		return bad("region", "got %q, want a code of two letters as \"US\"", policies.Clip(q.Region, 20))
	}
	return settleDomains(q)
}

func settleDomains(q Query) (Query, error) {
	for name, list := range map[string]*[]string{"allowed_domains": &q.AllowedDomains, "blocked_domains": &q.BlockedDomains} {
		if len(*list) > MaxDomains {
			return q, &QueryError{name, fmt.Sprintf("got %d of them, and %d is the most", len(*list), MaxDomains)}
		}
		var out []string
		for i, s := range *list {
			h, err := policies.ParseHost(s)
			if len(s) > 2 && s[:2] == "*." {
				h, err = policies.ParseHost(s[2:])
			}
			if err != nil || h.Name() == "" {
				return q, &QueryError{name, fmt.Sprintf("number %d is not a domain; write it as \"example.com\", which means the hosts below it too", i+1)}
			}
			out = append(out, h.Name())
		}
		*list = out
	}
	return q, nil
}
