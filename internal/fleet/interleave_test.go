package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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
	if got != size || largest > fastFrame {
		t.Errorf("%d bytes of %d arrived, in frames of at most %d, want at most %d", got, size, largest, fastFrame)
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
	for _, slow := range []time.Duration{0, slowWrite} {
		for _, tt := range []struct{ room, size, want int }{
			{0, 1, 0},
			{fastFrame, fastFrame + 1, fastFrame},
			{2*fastFrame + 5, 4 * fastFrame, 2*fastFrame + 5},
		} {
			w := &roomy{room: tt.room, err: broken}
			a := interleaved{ResponseWriter: w, turns: new(turns)}
			a.turns.wrote(slow)
			if n, err := a.Write(make([]byte, tt.size)); n != tt.want || !errors.Is(err, broken) {
				t.Errorf("Write of %d bytes with room for %d: %d, %v; want %d and the error", tt.size, tt.room, n, err, tt.want)
			}
			if w.failed != 1 {
				t.Errorf("Write of %d bytes with room for %d went on after an error: %d errors", tt.size, tt.room, w.failed)
			}
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

func (w *roomy) FlushError() error { return nil }

// While a link is slow, small answers and events of streams are written before the rest of
// large ones, which wait for a bounded time only. On a fast link nobody waits.
func TestSmallAnswersGoFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		took time.Duration
		wait time.Duration // of the large answer, while a small one is written for a long time
	}{
		"fast": {slowWrite - 1, 0},
		"slow": {slowWrite, largeWait},
	} {
		for _, flushes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, flushes %v", name, flushes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var order turns
					order.wrote(tt.took)
					large := interleaved{ResponseWriter: &roomy{room: 1 << 20}, turns: &order, written: maxSmall}
					slow := &blocked{over: make(chan struct{})}
					small := interleaved{ResponseWriter: slow, turns: &order}
					var writing sync.WaitGroup
					writing.Go(func() {
						if flushes {
							_ = small.FlushError()
							return
						}
						_, _ = small.Write(make([]byte, maxSmall))
					})
					synctest.Wait()
					began := time.Now()
					if _, err := large.Write([]byte("x")); err != nil || time.Since(began) != tt.wait {
						t.Errorf("a large answer waited for %v beside a small one, want %v: %v", time.Since(began), tt.wait, err)
					}
					ended := make(chan time.Duration, 1)
					writing.Go(func() {
						began := time.Now()
						_, _ = large.Write([]byte("x"))
						ended <- time.Since(began)
					})
					synctest.Wait()
					close(slow.over)
					if d := <-ended; d != 0 {
						t.Errorf("a large answer waited for %v after the end of the small one", d)
					}
					writing.Wait()
					began = time.Now()
					if _, err := large.Write([]byte("x")); err != nil || time.Since(began) != 0 {
						t.Errorf("a large answer waited for %v, want 0 without small ones: %v", time.Since(began), err)
					}
				})
			})
		}
	}
}

// blocked is an answer that is not accepted until over is closed.
type blocked struct {
	http.ResponseWriter
	over chan struct{}
}

func (w *blocked) Write(p []byte) (int, error) { return len(p), w.FlushError() }

func (w *blocked) FlushError() error {
	<-w.over
	return nil
}

// The frames of a large answer are smaller while the link is slow, and it is fast again after a
// few writes that did not wait.
func TestFramesOfASlowLink(t *testing.T) {
	var order turns
	w := &sizes{}
	large := interleaved{ResponseWriter: w, turns: &order}
	write := func(want ...int) {
		t.Helper()
		w.all = nil
		if n, err := large.Write(make([]byte, 2*fastFrame+1)); n != 2*fastFrame+1 || err != nil {
			t.Fatalf("%d bytes were written: %v", n, err)
		}
		if !slices.Equal(w.all, want) {
			t.Errorf("frames of %d bytes, want %d", w.all, want)
		}
	}
	write(fastFrame, fastFrame, 1)
	order.wrote(8 * slowWrite)
	small := append(slices.Repeat([]int{slowFrame}, 2*fastFrame/slowFrame), 1)
	for range 4 {
		w.flushes = 0
		write(small...)
		if w.flushes != len(small) {
			t.Errorf("%d frames were flushed of %d, so net/http gathers some", w.flushes, len(small))
		}
		order.wrote(0)
	}
	write(fastFrame, fastFrame, 1)
	if large.written <= maxSmall || large.FlushError() != nil || large.written != 0 {
		t.Errorf("after %d bytes and a flush, what comes next is not another answer", large.written)
	}
}

// sizes is an answer that records the sizes of its writes, and counts its flushes.
type sizes struct {
	http.ResponseWriter
	all     []int
	flushes int
}

func (w *sizes) Write(p []byte) (int, error) {
	w.all = append(w.all, len(p))
	return len(p), nil
}

func (w *sizes) FlushError() error {
	w.flushes++
	return nil
}
