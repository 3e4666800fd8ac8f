package browser_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"belljar.dev/browser"
)

// TestBrotli checks pages that are sent in brotli to every client. Only the browser reads
// them, and only over TLS, because Chrome does not accept brotli over plain HTTP.
func TestBrotli(t *testing.T) {
	if !inWorld(t) {
		return
	}
	w := newWorld(t, browser.Config{Slots: 1})
	// <!doctype html><title>Packed</title><main><h1>Packed</h1><p>Read by a browser.</p></main>
	packed, err := base64.StdEncoding.DecodeString("G1gAACwOzPPjxZaCNQcO8yNUeof5xIjNFzS45oEay5tkaW4N4lO2xgMuuoUZL0p4WUoge6ou1wLqk522tZoDuYvwj8twgiMB")
	if err != nil {
		t.Fatal(err)
	}
	w.dns.set("site.example", "93.184.216.34")
	w.page("site.example/", string(packed), "Content-Encoding: br")
	g := w.grant("t", intercepted)
	if l, err := w.load(g, browser.Request{URL: "https://site.example/"}); err != nil || !strings.Contains(l.HTML, "Read by a browser.") {
		t.Errorf("by TLS: got %+v, %v", l, err)
	}
	if l, err := w.load(g, browser.Request{URL: "http://site.example/"}); err == nil {
		t.Errorf("by plain HTTP: got %+v; now the reader need not say that it cannot be read", l)
	}
}
