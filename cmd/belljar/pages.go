package main

import (
	"cmp"

	"belljar.dev/browser"
	"belljar.dev/browser/fetch"
	"belljar.dev/browser/reader"
	"belljar.dev/sandbox/egress"
)

// reading is what pages are read with.
type reading struct {
	fetch  *fetch.Fetcher
	chrome *browser.Pool
	reader *reader.Reader
}

// openReading prepares what pages are read with. It starts nothing: a host
// without a Chrome learns that at the first page that needs one.
func (w *works) openReading() error {
	cfg := fetch.Config{Log: w.log}
	if w.audit != nil {
		// No box has such an id.
		cfg.Record = func(_ string, r egress.Record) { w.audit.egress("ReadDocs", r) }
	}
	r := &w.reading
	r.fetch = fetch.New(cfg)
	var err error
	if r.chrome, err = browser.New(browser.Config{Supervisor: w.sandbox, Check: func(path string) error { return w.boxes().Check(path) }, Log: w.log}); err != nil {
		r.fetch.Close()
		return err
	}
	r.reader, err = reader.New(reader.Config{Fetch: r.fetch, Browser: r.chrome, Log: w.log})
	if err != nil {
		r.close()
	}
	return err
}

// close ends the browsers and the connections. The supervisor of their boxes
// is closed after that.
func (r *reading) close() error {
	if r.fetch == nil {
		return nil
	}
	return cmp.Or(r.chrome.Close(), r.fetch.Close())
}
