// Package browsertest contains a browser without a Chrome, for the tests of code that uses
// a browser.
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

// Fake answers Load according to its fields. The zero Fake knows no page. Its fields must
// not be changed while it is used; its methods are safe for concurrent use.
type Fake struct {
	// Pages contains the result for each URL.
	Pages map[string]*browser.Loaded
	// Errors contains the error for each URL. It is used before Pages.
	Errors map[string]error
	// Block makes every call wait until it is closed or the context of the call ends. If it
	// is nil, no call waits.
	Block <-chan struct{}

	mu       sync.Mutex
	requests []browser.Request
}

// Load returns what Pages or Errors contain for the URL, and an error of KindUnreachable
// for any other URL. If the context ends first, it returns an error of KindTimedOut.
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

// Requests returns the requests of the calls so far, in order.
func (f *Fake) Requests() []browser.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]browser.Request(nil), f.requests...)
}

// Draw always returns a picture of one transparent pixel.
func (f *Fake) Draw(context.Context, policies.Grant, browser.Drawing) (*browser.Drawn, error) {
	var png bytes.Buffer
	if err := pngs.Encode(&png, image.NewNRGBA(image.Rect(0, 0, 1, 1))); err != nil {
		return nil, &browser.Error{Message: "draw", Err: err}
	}
	return &browser.Drawn{PNG: png.Bytes(), Width: 1, Height: 1}, nil
}

// Close does nothing.
func (f *Fake) Close() error { return nil }
