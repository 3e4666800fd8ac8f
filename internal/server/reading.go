package server

import (
	"cmp"
	"context"

	"belljar.dev/browser"
	"belljar.dev/browser/act"
	"belljar.dev/browser/fetch"
	"belljar.dev/browser/reader"
	"belljar.dev/sandbox/egress"
)

// reading contains what reads web pages.
type reading struct {
	fetch  *fetch.Fetcher
	chrome *browser.Pool
	reader *reader.Reader
	seats  *act.Seats // browsers that agents use
}

// openReading opens what reads web pages. It starts no program: if the host has no Chrome,
// the first page that needs one fails.
func (s *Server) openReading(context.Context) error {
	cfg := fetch.Config{Allowed: s.sandbox.Allowance, Log: s.Log}
	if s.audit != nil {
		// No box has the ID ReadDocs.
		cfg.Record = func(_ string, r egress.Record) { s.audit.egress("ReadDocs", r) }
	}
	r := &s.reading
	r.fetch = fetch.New(cfg)
	var err error
	if r.chrome, err = browser.New(browser.Config{Supervisor: s.sandbox, Check: func(path string) error { return s.host.boxes().Check(path) }, Log: s.Log}); err != nil {
		r.fetch.Close()
		return err
	}
	r.reader, err = reader.New(reader.Config{Fetch: r.fetch, Browser: r.chrome, Log: s.Log})
	if err == nil {
		r.seats, err = act.New(act.Config{Pool: r.chrome, Log: s.Log})
	}
	if err != nil {
		r.close()
		return err
	}
	s.opened.Do(func() {
		if err := r.close(); err != nil {
			s.Log.Error("the browsers that read pages were not closed cleanly", "err", err)
		}
	})
	return nil
}

// close closes the browsers and the connections. The supervisor of the boxes must be closed
// later.
func (r *reading) close() error {
	var err error
	if r.seats != nil {
		err = r.seats.Close()
	}
	return cmp.Or(err, r.chrome.Close(), r.fetch.Close())
}
