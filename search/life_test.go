package search_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/policies"
	"belljar.dev/search"
	"belljar.dev/search/engine"
	"belljar.dev/search/searchtest"
)

// TestCancel checks that a query ends, with all its requests, when its last caller has
// left.
func TestCancel(t *testing.T) {
	r := newRig(t, nil)
	started, ended := make(chan string, 64), make(chan string, 64)
	for _, e := range r.mocks {
		r.server.Set(e, func(_ http.ResponseWriter, req *http.Request) {
			started <- e.Name
			<-req.Context().Done()
			ended <- e.Name
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client has gone")
	done := make(chan error, 1)
	go func() {
		_, err := r.fan.Search(ctx, r.grant("local"), search.Query{Text: "things"})
		done <- err
	}()
	for range r.mocks {
		<-started
	}
	cancel(gone)
	if err := <-done; !errors.Is(err, gone) {
		t.Errorf("got %v, want the cause", err)
	}
	if n := r.fan.Underway(); n != 0 {
		t.Errorf("%d flights go on", n)
	}
	for range r.mocks {
		<-ended
	}
	// The cancelled requests do not count as failures of the engines.
	for _, h := range r.fan.Health() {
		if h.State != search.Healthy {
			t.Errorf("%s: got %v", h.Engine, h.State)
		}
	}
}

// TestOneFlightForAll checks that callers that ask the same at the same time share one
// flight, that another tenant has its own, and that a caller that leaves does not end it
// for the others.
func TestOneFlightForAll(t *testing.T) {
	r := newRig(t, nil)
	held := make(chan struct{})
	brave := r.mock("brave")
	page := searchtest.Good(brave.Write(searchtest.Made("brave", 3)))
	r.has("brave", func(w http.ResponseWriter, req *http.Request) {
		<-held
		page(w, req)
	})
	q := search.Query{Text: "things", Engines: []string{"brave"}}
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := make(map[string]int)
	for _, tenant := range []string{"a", "a", "a", "b"} {
		all.Go(func() {
			_, err := r.fan.Watch(t.Context(), r.grant(tenant), q, func(p search.Progress) {
				mu.Lock()
				defer mu.Unlock()
				seen[tenant+" "+p.Engine]++
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	all.Go(func() {
		if _, err := r.fan.Search(ctx, r.grant("a"), q); !errors.Is(err, context.Canceled) {
			t.Errorf("one who left: got %v", err)
		}
	})
	eventually(t, "all wait", func() bool { return r.fan.Waiting() == 5 })
	cancel()
	eventually(t, "one has left", func() bool { return r.fan.Waiting() == 4 })
	close(held)
	all.Wait()
	if n := r.server.Asked(brave); n != 2 {
		t.Errorf("brave was asked %d times, want once for each tenant", n)
	}
	if seen["a brave"] != 3 || seen["b brave"] != 1 {
		t.Errorf("progress: got %v", seen)
	}
}

func TestCloseEndsAll(t *testing.T) {
	r := newRig(t, nil)
	for _, e := range r.mocks {
		r.server.Set(e, searchtest.Hang)
	}
	done := make(chan error, 3)
	for _, text := range []string{"a", "b", "c"} {
		go func() {
			_, err := r.fan.Search(t.Context(), r.grant("local"), search.Query{Text: text})
			done <- err
		}()
	}
	eventually(t, "all fly", func() bool { return r.fan.Underway() == 3 })
	if err := r.fan.Close(); err != nil {
		t.Error(err)
	}
	for range 3 {
		if err := <-done; !errors.Is(err, search.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	}
	if _, err := r.fan.Search(t.Context(), r.grant("local"), search.Query{Text: "d"}); !errors.Is(err, search.ErrClosed) {
		t.Errorf("after Close: got %v", err)
	}
}

// TestRestart checks that the health of an engine is still known after a restart.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "search")
	r := newRig(t, func(cfg *search.Config) { cfg.State = dir })
	r.has("bing", searchtest.Blocked(r.mock("bing")))
	r.search(search.Query{Text: "secret-words here"})
	if err := r.fan.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "engines.json"))
	if err != nil || strings.Contains(string(text), "secret") || !strings.Contains(string(text), "BLOCKED_CAPTCHA") {
		t.Errorf("got %v, %s", err, text)
	}
	next, err := search.New(search.Config{Engines: unrated(t), Door: r.server.Door(nil), State: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	report, err := next.Search(t.Context(), r.grant("local"), search.Query{Text: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if a := of(t, report, "bing"); a.Outcome != engine.SkippedOpen || a.RetryAfter < 7*time.Minute {
		t.Errorf("got %+v", a)
	}
}

// TestProbe checks that an engine that is left alone is tried again by a query, which does
// not wait for it.
func TestProbe(t *testing.T) {
	r := newRig(t, nil)
	held := make(chan struct{})
	mojeek := r.mock("mojeek")
	page := searchtest.Good(mojeek.Write(searchtest.Made("mojeek", 3)))
	r.has("mojeek", searchtest.InTurn(searchtest.Refuse(500, 0), func(w http.ResponseWriter, req *http.Request) {
		<-held
		page(w, req)
	}, page))
	r.search(search.Query{Text: "one"})
	r.fan.Wake()
	report := r.search(search.Query{Text: "two"})
	if a := of(t, report, "mojeek"); !a.Pending || report.Partial {
		t.Errorf("probe: got %+v, partial %v", a, report.Partial)
	}
	close(held)
	eventually(t, "the probe's end", func() bool { return r.fan.Underway() == 0 })
	// The answer of the probe, which arrived late, is in the cache.
	if again := r.search(search.Query{Text: "two"}); !again.Cached || of(t, again, "mojeek").Outcome != engine.OK {
		t.Errorf("again: got cached %v, %+v", again.Cached, of(t, again, "mojeek"))
	}
	if a := of(t, r.search(search.Query{Text: "three"}), "mojeek"); a.Outcome != engine.OK || a.Pending {
		t.Errorf("three: got %+v", a)
	}
}

// TestReserves checks that eleven engines are asked, even if some of the first eleven are
// left alone.
func TestReserves(t *testing.T) {
	reserves := []searchtest.Engine{
		{Name: "marginalia", Hosts: []string{"api.marginalia.nu", "api2.marginalia-search.com"}},
		{Name: "mwmbl", Hosts: []string{"api.mwmbl.org"}},
		{Name: "wiby", Hosts: []string{"wiby.me"}},
		{Name: "crossref", Hosts: []string{"api.crossref.org"}},
	}
	r := newRig(t, nil, reserves...)
	r.has("marginalia", searchtest.Refuse(503, 0))
	r.has("mwmbl", searchtest.Good(searchtest.Page{Type: "application/json", Body: []byte(`[{"title":[{"value":"T"}],"extract":[{"value":"E"}],"url":"https://m.example/"}]`)}))
	r.has("wiby", searchtest.Good(searchtest.Page{Type: "application/json", Body: []byte(`[{"Title":"W","URL":"https://w.example/","Snippet":"S"}]`)}))
	r.has("crossref", searchtest.Good(searchtest.Page{Type: "application/json", Body: []byte(`{"status":"ok","message":{"items":[{"title":["C"],"URL":"https://doi.org/1"}]}}`)}))
	for _, name := range []string{"duckduckgo", "brave", "arxiv"} {
		r.has(name, searchtest.Blocked(r.mock(name)))
	}
	r.search(search.Query{Text: "one"})
	report := r.search(search.Query{Text: "two"})
	asked := 0
	for _, a := range report.Engines {
		if a.Outcome != engine.SkippedOpen && a.Outcome != engine.DisabledByPolicy {
			asked++
		}
	}
	if asked != 11 {
		t.Errorf("%d engines were asked, want 11: %s", asked, report.Status())
	}
	if a := of(t, report, "crossref"); !a.Reserve || a.Role != engine.RoleAcademic {
		t.Errorf("crossref: got %+v", a)
	}
}

// TestPanicIsOneEnginesOwn checks that a panic while one engine is asked does not affect
// the others. The door of the test panics.
func TestPanicIsOneEnginesOwn(t *testing.T) {
	r := newRig(t, func(cfg *search.Config) {
		inner := cfg.Door
		cfg.Door = func(g policies.Grant) (search.Door, error) {
			d, err := inner(g)
			return &panicky{Door: d}, err
		}
	})
	report := r.search(search.Query{Text: "things"})
	odd := 0
	for _, a := range report.Engines {
		if a.Outcome == engine.Drift && a.Detail == "its rules failed" {
			odd++
		}
	}
	if odd != 3 || len(report.Results) == 0 {
		t.Errorf("%d engines failed, %d results; want 3 and some: %s", odd, len(report.Results), report.Status())
	}
}

type panicky struct {
	search.Door
	mu sync.Mutex
	n  int
}

func (p *panicky) Client() *http.Client {
	p.mu.Lock()
	p.n++
	n := p.n
	p.mu.Unlock()
	if n <= 3 {
		panic("a rule that is wrong")
	}
	return p.Door.Client()
}

// TestBrowserLane checks that a browser reads one page if there are no other results.
func TestBrowserLane(t *testing.T) {
	b := &browser{page: searchtest.Defaults()[1].Write(searchtest.Made("brave", 5)), asked: make(chan string, 10)}
	r := newRig(t, func(cfg *search.Config) { cfg.Browser = b })
	for _, e := range r.mocks {
		r.server.Set(e, searchtest.Blocked(e))
	}
	report := r.search(search.Query{Text: "one thing"})
	if len(report.Results) != 5 || len(b.asked) != 1 {
		t.Fatalf("got %d results, %d pages: %s", len(report.Results), len(b.asked), report.Status())
	}
	if got := <-b.asked; !strings.HasPrefix(got, "https://search.brave.com/search?") {
		t.Errorf("asked for %s", got)
	}
	if last := report.Engines[len(report.Engines)-1]; last.Lane != "browser" || last.Outcome != engine.OK {
		t.Errorf("got %+v", last)
	}
}

// TestNoBrowserLane checks that a profile without a browser has no second lane.
func TestNoBrowserLane(t *testing.T) {
	b := &browser{page: searchtest.Defaults()[1].Write(searchtest.Made("brave", 5)), asked: make(chan string, 10)}
	r := newRig(t, func(cfg *search.Config) { cfg.Browser = b })
	r.policy = searchPolicy(t, "", r.mocks...)
	for _, e := range r.mocks {
		r.server.Set(e, searchtest.Blocked(e))
	}
	_, err := r.fan.Search(t.Context(), r.grant("a"), search.Query{Text: "one thing"})
	if err == nil || len(b.asked) != 0 {
		t.Errorf("got %v and %d pages, want none", err, len(b.asked))
	}
}

type browser struct {
	page  searchtest.Page
	asked chan string
}

func (b *browser) Open(_ context.Context, g policies.Grant, address string) (engine.Response, error) {
	if g.IsZero() {
		return engine.Response{}, errors.New("no grant")
	}
	b.asked <- address
	return engine.Response{Status: 200, Header: http.Header{"Content-Type": {b.page.Type}}, Body: b.page.Body, FinalURL: address}, nil
}

// TestCookies checks that each tenant has its own cookies, and that their number is
// bounded.
func TestCookies(t *testing.T) {
	r := newRig(t, nil)
	brave := r.mock("brave")
	page := brave.Write(searchtest.Made("brave", 3))
	got := make(chan int, 10)
	r.has("brave", func(w http.ResponseWriter, req *http.Request) {
		n := 0
		for _, c := range req.Cookies() {
			if strings.HasPrefix(c.Name, "c") && strings.Trim(c.Name[1:], "0123456789") == "" {
				n++
			}
		}
		got <- n
		searchtest.Cookies(page)(w, req)
	})
	for i, c := range []struct {
		tenant string
		want   int
	}{{"a", 0}, {"a", 32}, {"b", 0}, {"a", 32}} {
		if _, err := r.fan.Search(t.Context(), r.grant(c.tenant), search.Query{Text: "things " + string(rune('a'+i)), Engines: []string{"brave"}}); err != nil {
			t.Fatal(err)
		}
		if n := <-got; n != c.want {
			t.Errorf("%d, tenant %s: %d cookies, want %d", i, c.tenant, n, c.want)
		}
	}
}

// TestBusy checks that a query beyond the bound is refused and not queued.
func TestBusy(t *testing.T) {
	r := newRig(t, nil)
	r.has("brave", searchtest.Hang)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			_, _ = r.fan.Search(ctx, r.grant("a"), search.Query{Text: strings.Repeat("x", i+1), Engines: []string{"brave"}})
		})
	}
	eventually(t, "all fly", func() bool { return r.fan.Underway() == 16 })
	if _, err := r.fan.Search(ctx, r.grant("a"), search.Query{Text: "one more"}); !errors.Is(err, search.ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
	if _, err := r.fan.Search(ctx, r.grant("b"), search.Query{Text: "mine", Engines: []string{"arxiv"}}); err != nil {
		t.Errorf("another tenant: got %v", err)
	}
	cancel()
	all.Wait()
}
