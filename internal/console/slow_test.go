package console

import (
	"context"
	"net/http"
	"testing"
)

// A reader that is slower than the events is notified that some are lost, and no event
// waits for a reader: WC-A8, WC-A27.
func TestSlowReader(t *testing.T) {
	g := start(t)
	token := g.login(Viewer)
	next, _, end := g.events(token, "")
	defer end()
	if e, ok := next(); !ok || e.Kind != "ping" {
		t.Fatal(e, ok)
	}
	// The reader does not read while these events are added. The ring, and the kernel's
	// buffers for a connection (up to 10 MB), have room for only a part of them, so the
	// reader must miss some.
	const all = 200 * ringSize
	for range all {
		g.ring.add(thing{kind: "box", id: "x"})
	}
	g.ring.add(thing{kind: "box", id: "last"})
	reset := false
	for read := 0; ; read++ {
		e, ok := next()
		if !ok {
			t.Fatal("the stream has ended")
		}
		if read > all {
			t.Fatalf("the reader got more than the %d events that were sent", all)
		}
		reset = reset || e.Kind == "reset"
		if e.ID == "last" || e.Kind == "reset" && e.Seq == g.ring.last() {
			break
		}
	}
	if !reset {
		t.Error("the reader was not told of the gap")
	}
}

// The streams end with the server.
func TestEndOfStreams(t *testing.T) {
	g := start(t)
	token := g.login(Viewer)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL()+"api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	g.ring.end()
	for buf := make([]byte, 1024); err == nil; {
		_, err = resp.Body.Read(buf)
	}
}
