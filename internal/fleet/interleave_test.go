package fleet

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
)

// A worker sends a large answer in small frames, however much its handler writes at once, so
// that the frames of small answers can be sent between them.
func TestLargeAnswersAreInterleaved(t *testing.T) {
	r := newRig(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	front, err := r.cert("other", "", "127.0.0.1").open()
	if err != nil {
		t.Fatal(err)
	}
	const size = 60_000 // bytes, which the window of a stream has room for at first (RFC 9113, 6.9.2)
	w, err := NewWorker(WorkerConfig{
		Name: "w1", Fronts: []string{"https://" + l.Addr().String()}, Credentials: r.cert("w1", WorkerDNS("w1")), Log: r.front.cfg.Log,
		Places: func() []string { return []string{"p"} }, Enter: func(p string) (func(), bool) { return func() {}, p == "p" },
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			if n, err := rw.Write(make([]byte, size)); n != size || err != nil {
				t.Errorf("%d bytes were written of %d: %v", n, size, err)
			}
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	c := r.acceptLink(l, front)
	write(c, preface+noSettings+frame(frameHeaders, endHeaders|endStream, 1, "\x82\x86\x84"+field("belljar-place", "p")), 1)
	got, largest := 0, 0
	if err := frames(c, func(kind, flags byte, n int) bool {
		if kind == frameData {
			got, largest = got+n, max(largest, n)
		}
		return kind == frameData && flags&endStream != 0
	}); err != nil {
		t.Error(err)
	}
	if got != size || largest > maxTurn {
		t.Errorf("%d bytes of %d arrived, in frames of at most %d, want at most %d", got, size, largest, maxTurn)
	}
	c.Close()
	cancel()
	if err := await(t, over, "end of the worker"); err != nil {
		t.Error(err)
	}
}

// An answer says how much of it was written, and stops at the first error.
func TestInterleavedErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct{ room, size, want int }{
		{0, 1, 0},
		{maxTurn, maxTurn + 1, maxTurn},
		{2*maxTurn + 5, 4 * maxTurn, 2*maxTurn + 5},
	} {
		w := &roomy{room: tt.room, err: broken}
		if n, err := (interleaved{w}).Write(make([]byte, tt.size)); n != tt.want || !errors.Is(err, broken) {
			t.Errorf("Write of %d bytes with room for %d: %d, %v; want %d and the error", tt.size, tt.room, n, err, tt.want)
		}
		if w.failed != 1 {
			t.Errorf("Write of %d bytes with room for %d went on after an error: %d errors", tt.size, tt.room, w.failed)
		}
	}
}

// roomy is an answer that has room for some bytes, and then fails.
type roomy struct {
	http.ResponseWriter
	room, failed int
	err          error
}

func (w *roomy) Write(p []byte) (int, error) {
	n := min(len(p), w.room)
	w.room -= n
	if n < len(p) {
		w.failed++
		return n, w.err
	}
	return n, nil
}
