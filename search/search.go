package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
)

// Search asks the engines that suit the query and that the grant allows. It returns when
// the engines that usually answer have answered, or when the query's time is up. If the
// same tenant repeats a query within a few minutes, it is answered from memory.
//
// The error is a *QueryError, a *NotAllowedError, an *UnavailableError if no engine that
// counts answered, ErrBusy, ErrClosed or the cause of ctx. No error contains the query.
func (f *Fan) Search(ctx context.Context, g policies.Grant, q Query) (*Report, error) {
	return f.Watch(ctx, g, q, nil)
}

// Watch does the same as Search, and calls tell for each engine that answers. tell must not
// block, and is not called after Watch has returned. It may be nil.
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
		// The last caller that leaves cancels the flight, and waits until it has ended.
		if f.leave(fl) {
			<-fl.done
		}
		return nil, context.Cause(ctx)
	}
}

// join returns the flight for a plan: one that is under way, or a new one.
func (f *Fan) join(ctx context.Context, p *plan) (*flight, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	if fl := f.flights[p.mark]; fl != nil {
		fl.waiting++
		return fl, nil
	}
	tenant := p.grant.Tenant()
	if len(f.active) >= flightsMost || f.tenants[tenant] >= flightsPerTenant {
		return nil, ErrBusy
	}
	door, err := f.doors.Take(p.grant, time.Now(), func() (Door, error) { return f.cfg.Door(p.grant) })
	if errors.Is(err, egress.ErrClosed) {
		return nil, ErrClosed
	}
	if err != nil {
		return nil, err
	}
	// The flight belongs to all callers that wait for it, and is cancelled when the last of
	// them has left.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	fl := &flight{
		tenant: tenant, mark: p.mark, cancel: cancel, waiting: 1,
		ready: make(chan struct{}), done: make(chan struct{}), watchers: make(map[int]func(Progress)),
	}
	f.flights[p.mark], f.active[fl] = fl, struct{}{}
	f.tenants[tenant]++
	f.work.Go(func() {
		defer cancel(nil)
		defer f.land(fl, door)
		f.lead(ctx, fl, p, door.What)
	})
	return fl, nil
}

// settle checks a query and sets the defaults of its empty fields.
func settle(q Query) (Query, error) {
	bad := func(argument, format string, args ...any) (Query, error) {
		return q, &QueryError{argument, fmt.Sprintf(format, args...)}
	}
	switch n := len(q.Text); {
	case clean(q.Text, MaxQuery) == "":
		return bad("query", "it is empty; say what to search for")
	case n > MaxQuery:
		return bad("query", "it has %d bytes, and at most %d are allowed; search for the words that matter", n, MaxQuery)
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
		return bad("language", "got %q, want a code of two or three letters such as \"en\"", policies.Clip(q.Language, 20))
	}
	if !code(q.Region, 2, 2) {
		return bad("region", "got %q, want a code of two letters such as \"US\"", policies.Clip(q.Region, 20))
	}
	return settleDomains(q)
}

func settleDomains(q Query) (Query, error) {
	for name, list := range map[string]*[]string{"allowed_domains": &q.AllowedDomains, "blocked_domains": &q.BlockedDomains} {
		if len(*list) > MaxDomains {
			return q, &QueryError{name, fmt.Sprintf("got %d of them, and at most %d are allowed", len(*list), MaxDomains)}
		}
		var out []string
		for i, s := range *list {
			h, err := policies.ParseHost(s)
			if len(s) > 2 && s[:2] == "*." {
				h, err = policies.ParseHost(s[2:])
			}
			if err != nil || h.Name() == "" {
				return q, &QueryError{name, fmt.Sprintf("number %d is not a domain; write a domain such as \"example.com\", which includes the hosts below it", i+1)}
			}
			out = append(out, h.Name())
		}
		*list = out
	}
	return q, nil
}

// code reports whether s is empty or consists of letters, whose number is from least to
// most.
func code(s string, least, most int) bool {
	if s == "" {
		return true
	}
	return len(s) >= least && len(s) <= most &&
		strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz") == ""
}

// listed joins words with commas, without the empty word.
func listed(words []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(words), func(s string) bool { return s == "" }), ", ")
}
