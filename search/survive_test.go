package search_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox/egress"
	"belljar.dev/search"
	"belljar.dev/search/searchtest"
)

// queries returns the number of queries that a long test makes.
func queries(t testing.TB, usual int) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("BELLJAR_TEST_QUERIES"))
	if err != nil || n < 1 {
		return usual
	}
	return n
}

// monsters makes all engines misbehave in every way.
func (r *rig) monsters() {
	bomb := searchtest.Bomb()
	for _, e := range r.mocks {
		good := e.Write(searchtest.Made(e.Name, 10))
		small := searchtest.Page{Type: good.Type, Body: good.Body[len(good.Body)*2/5 : len(good.Body)*3/5]}
		r.server.Set(e, searchtest.Any(
			searchtest.Zipped(good), searchtest.Noise(good), searchtest.Noise(good), searchtest.Truncated(good), searchtest.Headless(good),
			searchtest.Blocked(e), searchtest.Soft(e), searchtest.Refuse(429, 1), searchtest.Refuse(503, 0), searchtest.Refuse(204, 0),
			searchtest.Sometimes(0.05, searchtest.Hang, searchtest.Zipped(good)),
			searchtest.Sometimes(0.02, searchtest.Huge(50<<20), searchtest.Good(small)),
			searchtest.Sometimes(0.02, bomb, searchtest.Good(small)),
			searchtest.Sometimes(0.05, searchtest.Dribble(5*time.Millisecond), searchtest.Good(small)),
			searchtest.Circle, searchtest.Away("https://127.0.0.1/"), searchtest.Away("https://elsewhere.example/"), searchtest.Away("file:///etc/passwd"),
			searchtest.Charset(good, "utf-16"), searchtest.Charset(good, "x-nonsense"), searchtest.Charset(good, "shift_jis"),
			searchtest.Cookies(good), searchtest.Good(searchtest.Page{Type: "image/png", Body: bytes.Repeat([]byte{0}, 10_000)}),
			searchtest.Good(searchtest.Page{Type: good.Type, Body: nil}),
			searchtest.Good(searchtest.Page{Type: good.Type, Body: []byte(strings.Repeat("<div>", 50_000))}),
			searchtest.Good(searchtest.Page{Type: good.Type, Body: []byte(strings.Repeat(`{"results":[`, 20_000))}),
		))
	}
}

// TestSurvivors sends BELLJAR_TEST_QUERIES queries to engines that misbehave in every way.
// It checks that no goroutine and no memory is left behind.
func TestSurvivors(t *testing.T) {
	n := queries(t, 150)
	r := newRig(t, nil)
	r.fan.SetPatience(150 * time.Millisecond)
	r.monsters()
	var tally [4]atomic.Int64
	var strange atomic.Int64
	round := func(from, to int) {
		next := make(chan int)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i := range next {
					r.fan.Wake() // without this, most engines would be left alone from now on
					q := search.Query{Text: fmt.Sprintf("query %d", i), Timeout: 150 * time.Millisecond, Page: 1 + i%2}
					report, err := r.fan.Search(t.Context(), r.grant("tenant"+strconv.Itoa(i%3)), q)
					none, _ := errors.AsType[*search.UnavailableError](err)
					switch {
					case none != nil:
						tally[1].Add(1)
					case errors.Is(err, search.ErrBusy):
						tally[2].Add(1)
					case err != nil:
						tally[3].Add(1)
						t.Errorf("query %d: %v", i, err)
					default:
						tally[0].Add(1)
						for _, res := range report.Results {
							if !strings.HasPrefix(res.URL, "http") {
								strange.Add(1)
							}
						}
					}
				}
			})
		}
		for i := from; i < to; i++ {
			next <- i
		}
		close(next)
		all.Wait()
		eventually(t, "the last flight", func() bool { return r.fan.Underway() == 0 })
	}
	// The caches of answers are bounded, and this round fills them: only memory that grows
	// without end counts.
	round(0, n/3)
	goroutines, memory := settled(t, r), resident(t)
	round(n/3, n)
	t.Logf("%d queries: %d reports, %d unavailable, %d busy, %d errors", n, tally[0].Load(), tally[1].Load(), tally[2].Load(), tally[3].Load())
	after := settled(t, r)
	t.Logf("goroutines %d, then %d; resident memory %d KiB, then %d KiB", goroutines, after, memory>>10, resident(t)>>10)
	if after > goroutines+5 {
		t.Errorf("got %d goroutines, %d before", after, goroutines)
	}
	if grown := resident(t) - memory; n >= 1000 && grown > 20<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
	if strange.Load() > 0 || tally[0].Load() == 0 {
		t.Errorf("%d strange links, %d reports", strange.Load(), tally[0].Load())
	}
	for _, h := range r.server.Strange() {
		t.Errorf("a host was looked up that is no engine's: %s", h)
	}
}

// settled returns the number of goroutines without idle connections.
func settled(t testing.TB, r *rig) int {
	t.Helper()
	r.fan.CloseIdle()
	last, same := 0, 0
	eventually(t, "goroutines come to rest", func() bool {
		n := runtime.NumGoroutine()
		if n == last {
			same++
		} else {
			last, same = n, 0
		}
		return same > 100
	})
	return last
}

// resident returns the resident memory of this process, in bytes.
func resident(t testing.TB) int64 {
	t.Helper()
	runtime.GC()
	runtime.GC()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// TestNoQueryIsLeftBehind has two tenants ask many queries, and checks that no query is in
// the logs, errors, records, progress notices or files.
func TestNoQueryIsLeftBehind(t *testing.T) {
	n := queries(t, 200)
	dir := t.TempDir()
	var said testenv.Log
	r := newRig(t, func(cfg *search.Config) {
		cfg.State = filepath.Join(dir, "search")
		cfg.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	// The same door as outside of tests, which records no paths.
	hosts := make(map[string]bool)
	for _, e := range r.mocks {
		for _, h := range e.Hosts {
			hosts[h] = true
		}
	}
	r.fan.UseDoor(r.server.Door(func(rec egress.Record) {
		if rec.Path != "" && rec.Path != "/" {
			rec.Path = "" // as egressDoor does, which TestPathsAreNotTold checks
		}
		fmt.Fprintf(&said, "%+v %s\n", rec, rec.Refusal())
		if !rec.Host.IsZero() && !hosts[rec.Host.String()] {
			t.Errorf("met the door: %s", rec.Host)
		}
	}))
	for _, e := range r.mocks {
		good := searchtest.Zipped(e.Write(searchtest.Made(e.Name, 2)))
		r.server.Set(e, searchtest.Any(good, good, searchtest.Blocked(e), searchtest.Refuse(429, 1), searchtest.Circle, searchtest.Away("https://elsewhere.example/?q=x")))
	}
	r.fan.SetPatience(time.Second)
	for i := range n {
		tenant := []string{"a", "b"}[i%2]
		// Both tenants ask the same query, one after the other.
		q := search.Query{Text: fmt.Sprintf("zebrafish%dquestion", i/2), Timeout: time.Second}
		if i%7 == 0 {
			r.fan.Wake()
		}
		report, err := r.fan.Watch(t.Context(), r.grant(tenant), q, func(p search.Progress) { fmt.Fprintf(&said, "%+v\n", p) })
		if err != nil {
			fmt.Fprintln(&said, err)
		} else {
			fmt.Fprintln(&said, report.Status(), report.Engines, report.Note)
			if report.Cached || report.Stale {
				t.Errorf("query %d: tenant %s got what the other had asked", i, tenant)
			}
		}
	}
	eventually(t, "the last flight", func() bool { return r.fan.Underway() == 0 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.fan.Search(ctx, r.grant("a"), search.Query{Text: "zebrafish cancelled"})
	fmt.Fprintln(&said, err)
	if err := r.fan.Close(); err != nil {
		t.Fatal(err)
	}
	if s := said.String(); strings.Contains(s, "zebrafish") {
		i := strings.Index(s, "zebrafish")
		t.Errorf("a query was told: ...%s", s[max(0, i-200):min(len(s), i+50)])
	}
	if len(said.String()) < 1000*n {
		t.Errorf("only %d bytes were told: something is not tried", len(said.String()))
	}
	files := 0
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		text, err := os.ReadFile(filepath.Join(dir, path))
		if strings.Contains(string(text)+path, "zebrafish") {
			t.Errorf("a query is on the disk: %s", path)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
	for _, h := range r.server.Strange() {
		t.Errorf("a host was looked up that is no engine's: %s", h)
	}
}

// TestAllScrapedBlocked checks that if all pages for people are blocked, the services for
// programs still give results.
func TestAllScrapedBlocked(t *testing.T) {
	r := newRig(t, nil)
	for _, e := range r.mocks {
		switch e.Name {
		case "duckduckgo", "brave", "mojeek", "bing", "startpage":
			r.server.Set(e, searchtest.Blocked(e))
		}
	}
	report := r.search(search.Query{Text: "goroutine leak in http client"})
	if len(report.Results) < 10 {
		t.Errorf("got %d results", len(report.Results))
	}
	for _, name := range []string{"duckduckgo", "brave", "mojeek", "bing", "startpage"} {
		if a := of(t, report, name); a.Outcome.Answered() || a.RetryAfter <= 0 {
			t.Errorf("%s: got %v, retry in %v", name, a.Outcome, a.RetryAfter)
		}
	}
	if !report.Partial || report.Took > testPatience {
		t.Errorf("partial %v, took %v", report.Partial, report.Took)
	}
	t.Logf("%d results after %v: %s", len(report.Results), report.Took, report.Status())
}

// testPatience is long enough for a busy machine; the benchmarks measure times.
const testPatience = search.DefaultTimeout
