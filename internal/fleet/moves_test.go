package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"belljar.dev/internal/fleet/claims"
	"belljar.dev/internal/testenv"
)

// mover is the Mover of a worker under test. A function that is nil does what a good worker
// does.
type mover struct {
	do      func(context.Context, Step, Marked) (Looked, error)
	pack    func(context.Context, io.Writer) error
	receive func(ctx context.Context, in io.Reader, alive func()) error

	mu    sync.Mutex
	taken []string // guarded by mu: steps with their places
}

func (m *mover) mover() Mover {
	if m == nil {
		return nil
	}
	return m
}

func (m *mover) note(s Step, at Marked) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken = append(m.taken, fmt.Sprint(s, " ", at.Place))
}

func (m *mover) took(step string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.taken, step)
}

func (m *mover) Do(ctx context.Context, s Step, at Marked) (Looked, error) {
	m.note(s, at)
	if m.do != nil {
		return m.do(ctx, s, at)
	}
	return Looked{}, nil
}

func (m *mover) Pack(ctx context.Context, at Marked, out io.Writer) error {
	m.note(StepPack, at)
	if m.pack != nil {
		return m.pack(ctx, out)
	}
	_, err := io.WriteString(out, "a place")
	return err
}

func (m *mover) Receive(ctx context.Context, at Marked, in io.Reader, alive func()) error {
	m.note(StepReceive, at)
	if m.receive != nil {
		return m.receive(ctx, in, alive)
	}
	_, err := io.Copy(io.Discard, in)
	return err
}

// movingRig starts a front with a worker w1 that has the place p, and with workers w2 and
// w3 without places.
func movingRig(t *testing.T, change func(*moveTimes), movers map[string]*mover, places ...string) *rig {
	t.Helper()
	times := usualMoves
	times.reconcile, times.retry = 10*time.Millisecond, 5*time.Millisecond
	if change != nil {
		change(&times)
	}
	r := newRig(t, func(cfg *FrontConfig) { cfg.times = times })
	r.times, r.movers = times, movers
	for _, name := range []string{"w1", "w2", "w3"} {
		if r.movers[name] == nil {
			r.movers[name] = new(mover)
		}
		var has []string
		if name == "w1" {
			has = append(places, "p")
		}
		r.worker(name, r.cert(name, WorkerDNS(name)), echo(name), has...)
	}
	for _, place := range append(places, "p") {
		if _, err := r.front.cfg.Claims.Swap(t.Context(), place, claims.Claim{}, claims.Claim{Worker: "w1"}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *rig) move(place, to string) {
	r.t.Helper()
	if _, err := r.front.Move(r.t.Context(), place, to); err != nil {
		r.t.Fatal(err)
	}
}

// stays waits until place p is at work again where it was, and its last move ended for a
// reason.
func (r *rig) stays(why string) {
	r.t.Helper()
	const place = "p"
	var now PlaceInfo
	r.until("end of the move of "+place, func() bool {
		now = r.front.Place(place)
		return !now.Moving
	})
	if now.Worker != "w1" || !strings.Contains(now.Said, why) {
		r.t.Errorf("%+v; want that it stays, and %q", now, why)
	}
	r.until("thaw of "+place, func() bool { return r.movers["w1"].took("thaw " + place) })
}

func (r *rig) moved(place, to string) {
	r.t.Helper()
	r.until("move of "+place+" to "+to, func() bool { now := r.front.Place(place); return !now.Moving && now.Worker == to })
}

// idle waits until the front works on no move.
func (r *rig) idle() {
	r.t.Helper()
	r.until("end of all work on moves", func() bool {
		r.front.moves.mu.Lock()
		defer r.front.moves.mu.Unlock()
		return len(r.front.moves.busy) == 0
	})
}

func readAll(in io.Reader) { _, _ = io.Copy(io.Discard, in) }

// If one of the ends blocks a copy, at any time, the copy is soon abandoned.
func TestSilentWorkers(t *testing.T) {
	soon := func(m *moveTimes) {
		m.stall, m.quiet, m.patience = 250*time.Millisecond, 500*time.Millisecond, time.Millisecond
	}
	for name, movers := range map[string]map[string]*mover{
		"the target has all": {"w2": {receive: func(ctx context.Context, in io.Reader, _ func()) error {
			readAll(in)
			<-ctx.Done()
			return ctx.Err()
		}}},
		"the target does not read": {
			"w1": {pack: func(_ context.Context, out io.Writer) error { return endless(out) }},
			"w2": {receive: func(ctx context.Context, _ io.Reader, _ func()) error {
				<-ctx.Done()
				return ctx.Err()
			}},
		},
		"the source has sent nothing": {"w1": {pack: func(ctx context.Context, _ io.Writer) error {
			<-ctx.Done()
			return ctx.Err()
		}}},
		"the source has sent a part": {"w1": {pack: func(ctx context.Context, out io.Writer) error {
			_, _ = out.Write(make([]byte, 1<<20))
			<-ctx.Done()
			return ctx.Err()
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := movingRig(t, soon, movers)
			r.move("p", "w2")
			r.stays("makes no progress")
		})
	}
}

// endless writes until a write fails.
func endless(out io.Writer) error {
	for {
		if _, err := out.Write(make([]byte, 64<<10)); err != nil {
			return err
		}
	}
}

// A stream that is longer than any place can be is cut off, also in an export and in an
// import.
func TestEndlessPlaces(t *testing.T) {
	r := movingRig(t, func(m *moveTimes) { m.most = 1 << 20 }, map[string]*mover{"w1": {pack: func(_ context.Context, out io.Writer) error { return endless(out) }}})
	r.move("p", "w2")
	r.stays("a place cannot be that large")
	if err := r.front.Export(t.Context(), "p", io.Discard); err == nil || !strings.Contains(err.Error(), "a place cannot be that large") {
		t.Errorf("exported: %v", err)
	}
	if err := r.front.Import(t.Context(), "new", "w2", endlessReader{}); err == nil || !strings.Contains(err.Error(), "a place cannot be that large") {
		t.Errorf("imported: %v", err)
	}
}

// TestUnfitFiles checks that, if a worker refuses to start a place that was imported from a
// file, the place is not made. The operator gets the reason as the error of the import or,
// if the front undid the import before that, in the list of places.
func TestUnfitFiles(t *testing.T) {
	r := movingRig(t, nil, map[string]*mover{"w2": {do: func(_ context.Context, s Step, _ Marked) (Looked, error) {
		if s == StepTake {
			return Looked{}, &Refusal{"its database is of a newer belljar"}
		}
		return Looked{}, nil
	}}})
	err := r.front.Import(t.Context(), "unfit", "w2", strings.NewReader("a place"))
	heard := err != nil && strings.Contains(err.Error(), "newer belljar")
	r.until("why the place is not there", func() bool {
		now := r.front.Place("unfit")
		return !now.Moving && (heard || strings.Contains(now.Said, "was not made: ") && strings.Contains(now.Said, "newer belljar"))
	})
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) { return len(p), nil }

// pausing is a stream that stops after some bytes.
type pausing struct {
	left int
	ctx  context.Context
}

func (p *pausing) Read(b []byte) (int, error) {
	if p.left > 0 {
		n := min(p.left, len(b))
		p.left -= n
		return n, nil
	}
	<-p.ctx.Done()
	return 0, p.ctx.Err()
}

// An export ends if the worker sends nothing, and an import ends if no bytes arrive or the
// worker does not answer.
func TestSilentFiles(t *testing.T) {
	hangs := func(ctx context.Context, in io.Reader, _ func()) error {
		readAll(in)
		<-ctx.Done()
		return ctx.Err()
	}
	r := movingRig(t, func(m *moveTimes) {
		m.stall, m.quiet, m.freeze = 50*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	},
		map[string]*mover{
			"w1": {pack: func(ctx context.Context, out io.Writer) error {
				_, _ = io.WriteString(out, "a part")
				<-ctx.Done()
				return ctx.Err()
			}},
			"w2": {receive: hangs},
		})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for what, do := range map[string]func() error{
		"an export":                     func() error { return r.front.Export(ctx, "p", io.Discard) },
		"an import that does not go on": func() error { return r.front.Import(ctx, "new", "w3", &pausing{1 << 10, ctx}) },
		"an import without an answer":   func() error { return r.front.Import(ctx, "newer", "w2", strings.NewReader("a place")) },
	} {
		if err := do(); !errors.Is(err, errStalled) {
			t.Errorf("%s: %v, want that it makes no progress", what, err)
		}
	}
}

// If the other end does not read an export, the place is not kept frozen.
func TestExportThatNobodyReads(t *testing.T) {
	packed := make(chan error, 1)
	r := movingRig(t, func(m *moveTimes) { m.stall = 50 * time.Millisecond }, map[string]*mover{"w1": {pack: func(_ context.Context, out io.Writer) error {
		err := endless(out)
		packed <- err
		return err
	}}})
	ctx, cancel := context.WithCancel(t.Context())
	l := r.front.roster.named("w1")
	res, err := l.step(ctx, StepPack, Marked{Place: "p"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	defer cancel()
	select {
	case err := <-packed:
		if err == nil {
			t.Error("all was sent")
		}
	case <-time.After(20 * time.Second):
		t.Error("the worker still packs")
	}
}

// Reading a body or writing an answer over HTTP/1 ends if the other end sends or reads
// nothing.
func TestTimedStream(t *testing.T) {
	ended := make(chan error, 2)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := &TimedStream{Wait: 50 * time.Millisecond, W: w, Body: r.Body}
		if r.URL.Path == "/read" {
			_, err := io.Copy(io.Discard, b)
			ended <- err
			return
		}
		ended <- endless(b)
	}))
	defer s.Close()
	for path, length := range map[string]int{"/read": 10, "/write": 4} {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\nhalf", path, length)
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("%s ended well", path)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s has not ended", path)
		}
	}
}

// The limit of a stream applies from its request to the last answer. Each sign of life
// restarts it, except while bytes flow.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name  string
			do    func(p *pace, works func())
			after time.Duration
		}{
			{"nothing", func(*pace, func()) {}, usualMoves.quiet},
			{"an end that works", func(_ *pace, works func()) {
				testenv.Delay(t.Context(), usualMoves.quiet-time.Second)
				works()
			}, 2*usualMoves.quiet - time.Second},
			{"bytes", func(p *pace, works func()) {
				_ = p.note(1, false)
				testenv.Delay(t.Context(), usualMoves.stall-time.Second)
				works() // a sign of life that is not a byte of the stream
			}, usualMoves.stall},
			{"a trickle", func(p *pace, _ func()) {
				for range 50 {
					_ = p.note(1, false)
					testenv.Delay(t.Context(), usualMoves.stall/50)
				}
			}, usualMoves.stall},
			{"bytes that go on", func(p *pace, _ func()) {
				for range 10 {
					_ = p.note(leastPart, false)
					testenv.Delay(t.Context(), usualMoves.stall-time.Second)
				}
			}, 10*usualMoves.stall - 9*time.Second},
			{"the last byte", func(p *pace, works func()) {
				_ = p.note(1, false)
				_ = p.note(0, true)
				testenv.Delay(t.Context(), usualMoves.quiet-time.Second)
				works()
			}, 2*usualMoves.quiet - time.Second},
			{"an end that works for ever", func(p *pace, works func()) {
				for range 2 * usualMoves.copy / usualMoves.quiet {
					testenv.Delay(t.Context(), usualMoves.quiet-time.Second)
					works()
				}
			}, usualMoves.copy},
		} {
			began := time.Now()
			ctx, p, end := usualMoves.startPace(t.Context(), usualMoves.quiet, new(atomic.Int64))
			over := make(chan time.Duration, 1)
			go func() {
				<-ctx.Done()
				over <- time.Since(began)
			}()
			tt.do(p, func() {
				_ = httptrace.ContextClientTrace(ctx).Got1xxResponse(http.StatusProcessing, textproto.MIMEHeader{})
			})
			if got := <-over; got != tt.after || !errors.Is(context.Cause(ctx), errStalled) && !errors.Is(context.Cause(ctx), errTooLong) {
				t.Errorf("%s: it ends after %s, %v; want %s", tt.name, got, context.Cause(ctx), tt.after)
			}
			end()
		}
	})
}

// A worker that checks what it has written sends signs of life before it answers.
func TestSignsOfLife(t *testing.T) {
	heard := make(chan struct{})
	r := movingRig(t, func(m *moveTimes) { m.say = 0 }, map[string]*mover{"w2": {receive: func(ctx context.Context, in io.Reader, alive func()) error {
		readAll(in)
		for {
			select {
			case <-heard:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			default:
				alive()
			}
		}
	}}})
	once := sync.OnceFunc(func() { close(heard) })
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		if code == http.StatusProcessing {
			once()
		}
		return nil
	}})
	res, err := r.front.roster.named("w2").step(ctx, StepReceive, Marked{Place: "new", Mark: claims.Mark{Move: 1, From: "w1"}}, strings.NewReader("a place"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
}

// If an operator stops a move, at this front or at another one, its copy ends immediately.
func TestStopMove(t *testing.T) {
	begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	r := movingRig(t, nil, map[string]*mover{"w2": {receive: func(ctx context.Context, in io.Reader, _ func()) error {
		readAll(in)
		begun <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return ctx.Err()
	}}})
	for what, stop := range map[string]func() error{
		"here": func() error { return r.front.StopMove(t.Context(), "p") },
		"at another front": func() error {
			c := r.front.cfg.Claims.Owner("p")
			_, err := r.front.cfg.Claims.Swap(t.Context(), "p", c, c.Abandon())
			return err
		},
	} {
		r.move("p", "w2")
		<-begun
		if err := stop(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: the copy goes on", what)
		}
		r.idle()
	}
	r.stays("the operator stopped it")
	r.until("discard", func() bool { return r.movers["w2"].took("discard p") })
	if err := r.front.StopMove(t.Context(), "p"); err == nil {
		t.Error("it is stopped twice")
	}
}

// A worker that is slow with many places does not block the moves of other workers' places.
func TestSlowTarget(t *testing.T) {
	var places []string
	for i := range 2 * maxDrives {
		places = append(places, fmt.Sprint("slow", i))
	}
	slow := make(chan struct{}, len(places))
	r := movingRig(t, nil, map[string]*mover{"w2": {receive: func(ctx context.Context, _ io.Reader, _ func()) error {
		slow <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}}, places...)
	// w1 is slow too, because all its places move to w2. The place of a third worker moves
	// nevertheless.
	for _, place := range places {
		r.move(place, "w2")
	}
	for range maxOfOne {
		<-slow
	}
	if _, err := r.front.cfg.Claims.Swap(t.Context(), "other", claims.Claim{}, claims.Claim{Worker: "w3"}); err != nil {
		t.Fatal(err)
	}
	r.movers["w4"] = new(mover)
	r.worker("w4", r.cert("w4", WorkerDNS("w4")), echo("w4"))
	r.front.roster.made(r.front.roster.named("w3"), "other")
	r.move("other", "w4")
	r.moved("other", "w4")
}

// A worker that stays busy with a place does not keep it frozen at the other worker. A
// worker that makes progress has more time.
func TestBusyTarget(t *testing.T) {
	var tries atomic.Int64
	r := movingRig(t, func(m *moveTimes) { m.patience = 30 * time.Millisecond }, map[string]*mover{
		"w2": {receive: func(context.Context, io.Reader, func()) error { return ErrBusy }},
		"w3": {receive: func(_ context.Context, in io.Reader, _ func()) error {
			readAll(in)
			if tries.Add(1) < 20 { // one try per round; together they take longer than patience
				return ErrAtWork
			}
			return nil
		}},
	})
	r.move("p", "w2")
	r.stays("is busy with this place")
	r.move("p", "w3")
	r.moved("p", "w3")
}

// A worker that reports progress without end does not keep a place frozen for longer than
// the time of a copy.
func TestTargetThatSaysItGetsOn(t *testing.T) {
	r := movingRig(t, func(m *moveTimes) { m.patience, m.copy = time.Millisecond, 200*time.Millisecond }, map[string]*mover{
		"w2": {receive: func(context.Context, io.Reader, func()) error { return ErrAtWork }},
	})
	r.move("p", "w2")
	r.stays("makes progress")
}

// No worker, mark or claim can cause a move number after which no further move is possible.
func TestNumbersOfMoves(t *testing.T) {
	last := atomic.Uint64{}
	r := movingRig(t, nil, map[string]*mover{"w2": {do: func(_ context.Context, s Step, _ Marked) (Looked, error) {
		return Looked{Last: last.Load()}, nil
	}}})
	for _, n := range []uint64{maxJump + 1, claims.MaxMove, claims.MaxMove + 1, 1<<64 - 1} {
		last.Store(n)
		if _, err := r.front.Move(t.Context(), "p", "w2"); !errors.Is(err, errLastMove) {
			t.Errorf("moved after %d: %v", n, err)
		}
		if err := r.front.Import(t.Context(), "new", "w2", strings.NewReader("")); !errors.Is(err, errLastMove) {
			t.Errorf("imported after %d: %v", n, err)
		}
	}
	if _, err := following(claims.Claim{Worker: "w1", Move: claims.MaxMove}, 0); !errors.Is(err, errLastMove) {
		t.Errorf("a move follows the last one: %v", err)
	}
	last.Store(maxJump)
	r.move("p", "w2")
	r.moved("p", "w2")
	l := r.front.roster.named("w1")
	for _, s := range []Step{StepFreeze, StepReceive, StepPack, StepTake} {
		_, err := l.step(t.Context(), s, Marked{"q", claims.Mark{Move: claims.MaxMove + 1}}, http.NoBody)
		if _, refused := errors.AsType[*Refusal](err); !refused || r.movers["w1"].took(string(s)+" q") {
			t.Errorf("%s: %v, want that the worker refuses it", s, err)
		}
	}
	if s := (state{Moves: &few[Marked]{{"p", claims.Mark{Move: claims.MaxMove + 1}}}}); s.fits() {
		t.Error("a front takes any mark of a worker")
	}
}

// TestDrainingWorkerOfTwoFronts checks that a worker that is connected to two fronts
// reports their number also while it drains. This front then refuses moves and new places,
// because the other front would not know of them.
func TestDrainingWorkerOfTwoFronts(t *testing.T) {
	r := movingRig(t, nil, map[string]*mover{})
	other := &rig{t: t, dir: r.dir, log: r.log, other: r}
	journal, err := claims.OpenJournal(t.TempDir() + "/claims")
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	other.serve(FrontConfig{Claims: journal, Settled: true})
	r.other = other
	w := r.worker("w4", r.cert("w4", WorkerDNS("w4")), echo("w4"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.Drain(ctx)
	r.until("a worker that drains", func() bool { l := r.front.roster.named("w4"); return l != nil && !r.front.roster.open(l) })
	if _, err := r.front.Move(t.Context(), "p", "w2"); err == nil || !strings.Contains(err.Error(), "w4 has 2 fronts") {
		t.Errorf("moved: %v", err)
	}
	if why := r.front.Info().Refused; !strings.Contains(why, "w4 has 2 fronts") {
		t.Errorf("new places are not refused: %q", why)
	}
	r.says("new", http.StatusServiceUnavailable, "w4 has 2 fronts")
}

// A text that is cut is still valid text.
func TestClip(t *testing.T) {
	for _, text := range []string{strings.Repeat("é", maxWhy), "x" + strings.Repeat("é", maxWhy), strings.Repeat("x", maxWhy)} {
		if got := clip(text); !utf8.ValidString(got) || len(got) > maxWhy || len(got) < maxWhy-utf8.UTFMax || !bytes.HasPrefix([]byte(text), []byte(got)) {
			t.Errorf("got %d bytes %q", len(got), got)
		}
	}
}
