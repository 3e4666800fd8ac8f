package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"

	"belljar.dev/browser"
	"belljar.dev/internal/config"
	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
	"belljar.dev/search"
	"belljar.dev/search/engine"
)

// openSearch opens the fan of WebSearch. It fails if a file of engines has a fault, since
// the search would then use other engines than intended.
func (s *Server) openSearch(ctx context.Context) error {
	dir := config.EnginesDir()
	if dir != "" {
		place, _, err := config.Reached(dir, s.workspaces(), s.Policy, func(m policies.Mount) bool { return m.Writable })
		if err != nil {
			return fmt.Errorf("engines %s: %w", dir, err)
		}
		if place != "" {
			return errors.New("engines " + dir + ": lie in " + place + ", where an agent could change them; move them, or choose a narrower --workspace")
		}
	}
	loader, err := engine.NewLoader(dir, s.Log)
	if err != nil {
		return err
	}
	cfg := search.Config{Engines: loader.Engines, Allowed: s.sandbox.Allowance, Log: s.Log}
	// The secrets are read only once, because a secret may be the output of a command.
	cfg.Keys = sync.OnceValue(func() engine.Keys { return s.host.keys(context.WithoutCancel(ctx), loader.Engines()) })
	if s.State != "" {
		cfg.State = filepath.Join(s.State, "search")
	}
	if s.audit != nil {
		// No box has the ID WebSearch.
		cfg.Record = func(_ string, r egress.Record) { s.audit.egress("WebSearch", r) }
	}
	cfg.Browser = searchLane{s.reading.chrome}
	if s.search, err = search.New(cfg); err != nil {
		return err
	}
	s.opened.Do(func() {
		if err := s.search.Close(); err != nil {
			s.Log.Error("the statistics of search engines were not saved", "err", err)
		}
	})
	return nil
}

// searchLane makes the pool of browsers the second lane of a search.
type searchLane struct{ pool *browser.Pool }

var errLane = errors.New("the browser did not load the page")

// Open implements search.Browser. It does not return the pool's error, which may contain
// the address and so the query.
func (l searchLane) Open(ctx context.Context, g policies.Grant, address string) (engine.Response, error) {
	page, err := l.pool.Load(ctx, g, browser.Request{URL: address, HTML: engine.MaxBody})
	switch {
	case ctx.Err() != nil:
		return engine.Response{}, ctx.Err()
	case err != nil:
		return engine.Response{}, errLane
	}
	header := make(http.Header)
	for name, value := range page.Headers {
		header.Set(name, value)
	}
	header.Set("Content-Type", "text/html; charset=utf-8") // the type in which the pool encodes pages
	return engine.Response{
		Status: page.Status, Header: header, Body: []byte(page.HTML), FinalURL: page.URL,
		Truncated: page.Partial != "" || page.HTMLSize > len(page.HTML),
	}, nil
}
