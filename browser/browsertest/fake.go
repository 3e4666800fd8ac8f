// Package browsertest has a browser without a browser, for the tests of what
// uses one.
package browsertest

import (
	"bytes"
	"context"
	"image"
	pngs "image/png"
	"sync"

	"belljar.dev/browser"
	"belljar.dev/policies"
)

// Fake answers Load as its fields say. The zero Fake knows no page. Its fields must
// not be changed while it is used; its methods are safe for concurrent use.
type Fake struct {
	// Pages is what each URL becomes.
	Pages map[string]*browser.Loaded
	// Errors is what goes wrong with each URL; it is looked at first.
	Errors map[string]error
	// Block, where set, is what every call waits for, or for its context.
	Block <-chan struct{}

	mu       sync.Mutex
	requests []browser.Request
}

// Load is what Pages or Errors say of the URL, and KindUnreachable for any other.
// A context that ends first gives KindTimedOut.
func (f *Fake) Load(ctx context.Context, _ policies.Grant, r browser.Request) (*browser.Loaded, error) {
	f.mu.Lock()
	f.requests = append(f.requests, r)
	f.mu.Unlock()
	if r.Progress != nil {
		r.Progress(browser.StageQueued)
		r.Progress(browser.StageLoading)
	}
	if f.Block != nil {
		select {
		case <-f.Block:
		case <-ctx.Done():
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, &browser.Error{Kind: browser.KindTimedOut, Message: "the page did not load in time", Err: err}
	}
	if err := f.Errors[r.URL]; err != nil {
		return nil, err
	}
	page, ok := f.Pages[r.URL]
	if !ok {
		return nil, &browser.Error{Kind: browser.KindUnreachable, Message: "no server answers at " + r.URL, Net: "net::ERR_NAME_NOT_RESOLVED"}
	}
	if r.Progress != nil {
		r.Progress(browser.StageReading)
	}
	copied := *page
	if copied.URL == "" {
		copied.URL = r.URL
	}
	return &copied, nil
}

// Requests are those of the calls so far, in order.
func (f *Fake) Requests() []browser.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]browser.Request(nil), f.requests...)
}

// Draw is always a picture of one transparent pixel.
func (f *Fake) Draw(context.Context, policies.Grant, browser.Drawing) (*browser.Drawn, error) {
	var png bytes.Buffer
	if err := pngs.Encode(&png, image.NewNRGBA(image.Rect(0, 0, 1, 1))); err != nil {
		return nil, &browser.Error{Message: "draw", Err: err}
	}
	return &browser.Drawn{PNG: png.Bytes(), Width: 1, Height: 1}, nil
}

// Close does nothing.
func (f *Fake) Close() error { return nil }
