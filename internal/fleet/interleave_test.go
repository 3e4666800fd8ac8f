package fleet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
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
// large ones. One that is not accepted for a long time delays these only once. On a fast link
// nobody waits.
func TestSmallAnswersGoFirst(t *testing.T) {
	write := func(a *interleaved) { _, _ = a.Write(make([]byte, maxSmall)) }
	flush := func(a *interleaved) { _ = a.FlushError() }
	end := func(a *interleaved) {
		a.written = 1 // net/http has gathered it
		a.finish()
	}
	for name, tt := range map[string]struct {
		took  time.Duration
		small func(*interleaved)
		wait  time.Duration
	}{
		"fast": {slowWrite - 1, write, 0}, "fast, an event": {slowWrite - 1, flush, 0},
		"slow": {slowWrite, write, largeWait}, "slow, an event": {slowWrite, flush, largeWait}, "slow, at its end": {slowWrite, end, largeWait},
		"slow, a part of a large answer": {slowWrite, func(a *interleaved) {
			a.written = maxSmall + 1
			flush(a)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var order turns
				order.wrote(tt.took)
				large := interleaved{ResponseWriter: &roomy{room: 1 << 20}, turns: &order, written: maxSmall}
				frame := func() time.Duration {
					began := time.Now()
					if _, err := large.Write([]byte("x")); err != nil {
						t.Error(err)
					}
					return time.Since(began)
				}
				w := &blocked{over: make(chan struct{})}
				var writing sync.WaitGroup
				writing.Go(func() { tt.small(&interleaved{ResponseWriter: w, turns: &order}) })
				synctest.Wait()
				time.Sleep(tt.wait / 2) // fake time
				ended := make(chan time.Duration, 1)
				writing.Go(func() { ended <- frame() })
				synctest.Wait()
				select {
				case d := <-ended:
					if tt.wait != 0 {
						t.Errorf("a large answer waited for %v beside a small one", d)
					}
				default:
					if tt.wait == 0 {
						t.Error("a large answer waits")
					}
				}
				if d := frame() + frame() + frame(); d != tt.wait-tt.wait/2 {
					t.Errorf("three more frames waited for %v, want %v", d, tt.wait-tt.wait/2)
				}
				close(w.over)
				writing.Wait()
				if d := frame(); d != 0 {
					t.Errorf("a large answer waited for %v without small ones", d)
				}
			})
		})
	}
}

// A large answer goes on at once when the last small one is written, and waits for a bounded
// time beside many.
func TestLargeAnswersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order turns
		order.wrote(slowWrite)
		large := interleaved{ResponseWriter: &roomy{room: 1 << 20}, turns: &order, written: maxSmall}
		first, second := order.begin(), order.begin()
		began := time.Now()
		time.AfterFunc(time.Millisecond, first)
		time.AfterFunc(2*time.Millisecond, second)
		if _, err := large.Write([]byte("x")); err != nil || time.Since(began) != 2*time.Millisecond {
			t.Errorf("a large answer went on after %v, want 2ms: %v", time.Since(began), err)
		}
		order.begin() // this one never ends
		for range 3 {
			time.Sleep(time.Second) // fake time
			began, end := time.Now(), order.begin()
			time.AfterFunc(time.Millisecond, end)
			if _, err := large.Write([]byte("x")); err != nil || time.Since(began) != time.Millisecond {
				t.Errorf("beside a stalled answer, a large one went on after %v, want 1ms: %v", time.Since(began), err)
			}
		}
		for range 20 { // small ones without a pause
			time.AfterFunc(largeWait/2, order.begin())
			time.AfterFunc(largeWait, order.begin())
			began = time.Now()
			if _, err := large.Write([]byte("x")); err != nil || time.Since(began) > largeWait {
				t.Errorf("a frame of a large answer waited for %v, want at most %v: %v", time.Since(began), largeWait, err)
			}
		}
	})
}

// blocked is an answer that is not accepted until over is closed.
type blocked struct {
	http.ResponseWriter
	over chan struct{}
}

func (w *blocked) Header() http.Header { return make(http.Header) }

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

// A write of a link counts for its turns, and both ends of a link have a socket that waits for
// room.
func TestLinksTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		c := newConn(here)
		defer c.Close()
		time.AfterFunc(slowWrite, func() { _, _ = io.Copy(io.Discard, there) })
		if _, err := c.Write(make([]byte, maxUrgent+1)); err != nil || !c.turns.slow() {
			t.Errorf("the link is not slow after a write of %v: %v", slowWrite, err)
		}
		for range 100 {
			_, _ = c.Write(make([]byte, maxUrgent))
		}
		if !c.turns.slow() {
			t.Error("writes that do not wait for room make a slow link fast")
		}
	})

	r := newRig(t, nil)
	const size = 60_000
	m := r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(make([]byte, size)) }, "p")
	r.says("p", 200, "\x00")
	if front, worker := r.front.roster.named("w1").conn, onlyLink(t, m.Worker); front.socket() == nil || worker.socket() == nil {
		t.Errorf("below TLS, the front has a socket: %v, the worker: %v", front.socket() != nil, worker.socket() != nil)
	}
	order := &onlyLink(t, m.Worker).turns
	order.longest.Store(1 << 62) // slow for the next 30 writes and more
	order.mu.Lock()
	before := order.none
	order.mu.Unlock()
	r.says("p", 200, "\x00")
	order.mu.Lock()
	defer order.mu.Unlock()
	if order.none == before {
		t.Error("an answer on a slow link took no turn")
	}
}

// onlyLink returns the link of a worker that has one.
func onlyLink(t *testing.T, w *Worker) *conn {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var links []*conn
	for c := range w.running {
		if c.first == nil {
			links = append(links, c)
		}
	}
	if len(links) != 1 {
		t.Fatalf("the worker has %d links, want one", len(links))
	}
	return links[0]
}

// Small answers of a slow link arrive as on a fast one, and are sent before their handlers
// return.
func TestSmallAnswersOfASlowLink(t *testing.T) {
	r := newRig(t, nil)
	flushes := make(chan int, 1)
	r.answers = func(rw http.ResponseWriter, req *http.Request, serve http.HandlerFunc) {
		if req.Header.Get(PlaceHeader) == "" {
			serve(rw, req)
			return
		}
		w := &flushed{ResponseWriter: rw}
		serve(w, req)
		flushes <- w.n
	}
	size := make(chan int, 1)
	m := r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(make([]byte, <-size)) }, "p")
	r.until("link", func() bool { return r.front.roster.named("w1") != nil })
	for _, tt := range []struct{ size, slow int }{ // slow is how often the answer is flushed on a slow link
		{0, 0}, {1, 1}, {4095, 1}, {4096, 1}, {4097, 1}, {maxSmall, 1}, {maxSmall + 1, 1}, {maxSmall + slowFrame + 1, 2},
	} {
		for longest, want := range map[int64]int{0: 0, 1 << 62: tt.slow} {
			onlyLink(t, m.Worker).turns.longest.Store(longest)
			size <- tt.size
			res, err := http.Post(r.http.URL+"/p/mcp", "application/json", strings.NewReader(`{"id":1}`))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != 200 || len(text) != tt.size || err != nil {
				t.Errorf("an answer of %d bytes: got %d, %d bytes, %v", tt.size, res.StatusCode, len(text), err)
			}
			if n := await(t, flushes, "end of the handler"); n != want {
				t.Errorf("an answer of %d bytes was flushed %d times, want %d", tt.size, n, want)
			}
		}
	}
}

// flushed is an answer that counts its flushes.
type flushed struct {
	http.ResponseWriter
	n int
}

func (w *flushed) FlushError() error {
	w.n++
	return http.NewResponseController(w.ResponseWriter).Flush()
}
