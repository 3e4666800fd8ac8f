package console

import (
	"context"
	"net/http"
	"testing"
)

// A reader that is slower than the events learns that some are gone, and no event waits for it:
// WC-A8, WC-A27.
func TestSlowReader(t *testing.T) {
	g := start(t)
	token := g.login(Viewer)
	next, _, end := g.events(token, "")
	defer end()
	if e, ok := next(); !ok || e.Kind != "ping" {
		t.Fatal(e, ok)
	}
	// Nobody reads meanwhile. The ring and the buffers that the kernel has for a connection, up to 10 MB,
	// hold only a part of these events, so the reader must miss some.
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

// The end of the server ends its streams.
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
