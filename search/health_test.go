package search

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/search/engine"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// steady returns a book whose times are not varied at random.
func steady() *book {
	b := newBook()
	b.jitter = func() float64 { return 0.5 }
	return b
}

func TestOpenDurations(t *testing.T) {
	for _, c := range []struct {
		name string
		told told
		want []time.Duration // times after several failures in a row
	}{
		{"rate limited", told{outcome: engine.RateLimited}, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 30 * time.Minute, 30 * time.Minute}},
		{"captcha", told{outcome: engine.BlockedCaptcha}, []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute, 80 * time.Minute, 160 * time.Minute, 320 * time.Minute, 6 * time.Hour}},
		{"forbidden", told{outcome: engine.HTTPError, status: 403}, []time.Duration{30 * time.Minute, time.Hour}},
		{"timeout", told{outcome: engine.Timeout}, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second, 2 * time.Minute}},
		{"server error", told{outcome: engine.HTTPError, status: 500}, []time.Duration{2 * time.Second, 4 * time.Second}},
		{"retry-after", told{outcome: engine.RateLimited, retry: 90 * time.Second}, []time.Duration{99 * time.Second, 99 * time.Second}},
		{"retry-after of a day", told{outcome: engine.RateLimited, retry: 24 * time.Hour}, []time.Duration{6*time.Hour + 36*time.Minute}},
	} {
		b, e, now := steady(), made("a", "a", engine.RoleGeneral), start
		for i, want := range c.want {
			if turn := b.take(e, now); !turn.ask {
				t.Errorf("%s %d: not asked: %+v", c.name, i, turn)
			}
			if got := b.note(e, now, c.told); got != want {
				t.Errorf("%s %d: got %v, want %v", c.name, i, got, want)
			}
			if turn := b.take(e, now); turn.ask || turn.retry != want {
				t.Errorf("%s %d: got %+v, want it left alone for %v", c.name, i, turn, want)
			}
			now = now.Add(want)
		}
	}
}

func TestOneProbeAtATime(t *testing.T) {
	b, e := steady(), made("a", "a", engine.RoleGeneral)
	b.take(e, start)
	b.note(e, start, told{outcome: engine.Timeout})
	later := start.Add(time.Minute)
	if got := b.take(e, later); !got.ask || got.state != Open {
		t.Errorf("got %+v, want a probe", got)
	}
	if got := b.take(e, later); got.ask {
		t.Errorf("got a second probe: %+v", got)
	}
	b.drop(e) // the query was cancelled
	if got := b.take(e, later); !got.ask {
		t.Errorf("got %+v, want a probe in the place of the one that was dropped", got)
	}
	b.note(e, later, told{outcome: engine.OK, took: time.Second})
	if got := b.take(e, later); !got.ask || got.state != Healthy {
		t.Errorf("got %+v, want it healthy", got)
	}
	if _, ok := b.slow(e); ok {
		t.Error("one answer says how slow it is")
	}
	for range latenciesLeast {
		b.note(e, later, told{outcome: engine.OK, took: 2 * time.Second})
	}
	if slow, ok := b.slow(e); !ok || slow != 2*time.Second {
		t.Errorf("slow: got %v, %v", slow, ok)
	}
}

// TestDegraded checks that after many bad answers, one good answer is not enough for an
// engine to be waited for.
func TestDegraded(t *testing.T) {
	b, e, now := steady(), made("a", "a", engine.RoleGeneral), start
	for range 4 {
		now = now.Add(time.Hour)
		b.take(e, now)
		b.note(e, now, told{outcome: engine.Timeout})
	}
	var states []State
	for range 3 {
		now = now.Add(time.Hour)
		b.take(e, now)
		b.note(e, now, told{outcome: engine.OK})
		states = append(states, b.peek(e))
	}
	if want := []State{Degraded, Degraded, Healthy}; !cmp.Equal(want, states) {
		t.Errorf("got %v, want %v", states, want)
	}
}

// TestOneFailureIsForgiven checks that one failure of an engine that usually answers is
// forgiven, that a second is not, and that a refusal never is.
func TestOneFailureIsForgiven(t *testing.T) {
	for _, c := range []struct {
		then []told
		want []time.Duration
	}{
		{[]told{{outcome: engine.Timeout}, {outcome: engine.Timeout}}, []time.Duration{0, 2 * time.Second}},
		{[]told{{outcome: engine.HTTPError, status: 502}, {outcome: engine.OK}, {outcome: engine.HTTPError, status: 502}}, []time.Duration{0, 0, 0}},
		{[]told{{outcome: engine.Timeout}, {outcome: engine.OK}, {outcome: engine.Timeout}, {outcome: engine.OK}, {outcome: engine.Timeout}}, []time.Duration{0, 0, 0, 0, 2 * time.Second}},
		{[]told{{outcome: engine.HTTPError, status: 403}}, []time.Duration{30 * time.Minute}},
		{[]told{{outcome: engine.BlockedCaptcha}}, []time.Duration{10 * time.Minute}},
		{[]told{{outcome: engine.HTTPError, status: 503, retry: time.Minute}}, []time.Duration{66 * time.Second}},
	} {
		b, e := steady(), made("a", "a", engine.RoleGeneral)
		b.note(e, start, told{outcome: engine.OK})
		b.note(e, start, told{outcome: engine.OK})
		for i, next := range c.then {
			if got := b.note(e, start, next); got != c.want[i] {
				t.Errorf("%+v, %d: got %v, want %v", c.then, i, got, c.want[i])
			}
		}
	}
}

// TestDriftNeedsTwoQueries checks that one odd page does not open an engine, and that odd
// pages for two different queries do.
func TestDriftNeedsTwoQueries(t *testing.T) {
	b, e := steady(), made("a", "a", engine.RoleGeneral)
	for i, c := range []struct {
		query uint64
		open  time.Duration
	}{{1, 0}, {1, 0}, {2, time.Hour}} {
		if got := b.note(e, start, told{outcome: engine.Drift, query: c.query}); got != c.open {
			t.Errorf("%d: got %v, want %v", i, got, c.open)
		}
	}
	if b.peek(e) != Open {
		t.Error("it is not open")
	}
}

func TestRate(t *testing.T) {
	b, e := steady(), made("a", "a", engine.RoleGeneral)
	e.Rate = engine.Rate{Every: 2 * time.Second, Burst: 2}
	var got []bool
	for _, at := range []time.Duration{0, 0, 0, time.Second, 2 * time.Second, 2 * time.Second, 20 * time.Second, 20 * time.Second, 20 * time.Second} {
		turn := b.take(e, start.Add(at))
		got = append(got, turn.ask)
		if !turn.ask && (turn.retry <= 0 || turn.retry > 2*time.Second || turn.why != engine.RateLimited) {
			t.Errorf("after %v: got %+v", at, turn)
		}
	}
	if want := []bool{true, true, false, false, true, false, true, true, false}; !cmp.Equal(want, got) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestHealthOutlivesTheProgram(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "search")
	a, b := made("a", "a", engine.RoleGeneral), made("b", "b", engine.RoleGeneral)
	a.Rate = engine.Rate{Every: time.Hour, Burst: 1}
	first := steady()
	first.take(a, start)
	first.note(a, start, told{outcome: engine.OK, took: 300 * time.Millisecond})
	first.take(b, start)
	first.note(b, start, told{outcome: engine.BlockedCaptcha})
	if err := first.store(dir); err != nil {
		t.Fatal(err)
	}
	// Meanwhile another program records something about an engine of its own.
	other := steady()
	c := made("c", "c", engine.RoleGeneral)
	other.note(c, start, told{outcome: engine.RateLimited})
	if err := other.store(dir); err != nil {
		t.Fatal(err)
	}
	second := steady()
	if err := second.load(dir); err != nil {
		t.Fatal(err)
	}
	now := start.Add(time.Second)
	if got := second.take(b, now); got.ask || got.retry != 10*time.Minute-time.Second || got.why != engine.BlockedCaptcha {
		t.Errorf("blocked: got %+v", got)
	}
	if got := second.take(a, now); got.ask || got.why != engine.RateLimited {
		t.Errorf("its rate was used up: got %+v", got)
	}
	if got := second.peek(c); got != Open {
		t.Errorf("what the other program learned: got %v", got)
	}
	if got := second.of("a"); got.n != 1 || got.took[0] != 300*time.Millisecond {
		t.Errorf("times: got %v", got.took)
	}
	if err := second.store(dir); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("got %v, %v; want one file", files, err)
	}
}

// TestHealthOfBadFiles checks that a file with nonsense in it does not keep an engine from
// being asked forever.
func TestHealthOfBadFiles(t *testing.T) {
	for _, text := range []string{
		"", "{", `[]`, `{"a":3}`, strings.Repeat("x", healthBytes+10),
		`{"a":{"fails":99999,"last":"TIMEOUT","since":"2026-11-22T12:00:00Z","until":"2999-01-01T00:00:00Z","spent":1e300,"spent_at":"2026-11-22T12:00:00Z","took_ms":[-1,9999999999]}}`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, healthFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b, e := steady(), made("a", "a", engine.RoleGeneral)
		e.Rate = engine.Rate{Every: time.Second, Burst: 3}
		err := b.load(dir)
		if b.take(e, start.Add(8*time.Hour)); err != nil && b.peek(e) != Healthy {
			t.Errorf("%.40q: got %v", text, err)
		}
		if got := b.take(e, start.Add(8*time.Hour)); !got.ask && got.state != Open {
			t.Errorf("%.40q: got %+v, want it asked again", text, got)
		}
		b.note(e, start.Add(8*time.Hour), told{outcome: engine.OK})
		if err := b.store(dir); err != nil {
			t.Errorf("%.40q: store over it: %v", text, err)
		}
		if err := steady().load(dir); err != nil {
			t.Errorf("%.40q: load what was stored: %v", text, err)
		}
	}
}

// TestTimesAreInOrder checks that the last answer times are in order, however many there
// were.
func TestTimesAreInOrder(t *testing.T) {
	for _, n := range []int{0, 3, latencies, latencies + 5} {
		h := health{}
		for i := range n {
			h.took[h.n%latencies] = time.Duration(i)
			h.n++
		}
		got := h.times()
		if len(got) != min(n, latencies) {
			t.Errorf("%d of %d times", len(got), n)
		}
		for i, took := range got {
			if want := time.Duration(n - len(got) + i); took != want {
				t.Errorf("of %d times, number %d is %d, want %d", n, i, took, want)
			}
		}
	}
}
