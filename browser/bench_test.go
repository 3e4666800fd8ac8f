package browser_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/browser/fetch"
	"belljar.dev/browser/fetch/fetchtest"
	"belljar.dev/browser/reader"
	"belljar.dev/internal/testenv"
)

// held reports a figure, and its ratio to its limit.
func held(b *testing.B, what string, got, limit float64) {
	b.Helper()
	b.ReportMetric(got, what)
	b.ReportMetric(got/limit, fmt.Sprintf("%s/limit-of-%v", what, limit))
}

// quantile returns the time, in milliseconds, within which this many hundredths of the
// loads were done.
func quantile(took []time.Duration, hundredths int) float64 {
	s := slices.Sorted(slices.Values(took))
	return s[min(len(s)*hundredths/100, len(s)-1)].Seconds() * 1e3
}

// script returns a page of about 32 KB whose article is written by a script.
func script() string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "<h2>Part %d</h2><p>%s</p>", i, strings.Repeat("Words of a page that a script wrote, with <a href='/x'>links</a>. ", 7))
	}
	return "<!doctype html><title>Script</title><main id=main></main><script>document.getElementById('main').innerHTML = " + fmt.Sprintf("%q", b.String()) + "</script>"
}

// rested waits until no work of the calls before is left: it would take time from the peer
// that is measured next.
func (r *rig) rested(slots int) {
	if !testenv.Until(time.Minute, func() bool { s := r.pool.Stats(); return s.Busy == 0 && s.Warm >= slots }) {
		r.t.Fatalf("the pool does not come to rest: %+v", r.pool.Stats())
	}
}

// BenchmarkPaired loads pages in turn through the pool, through chromedp with a
// context for each call and through playwright-core with newContext, and prints
// medians and their ratios.
func BenchmarkPaired(b *testing.B) {
	const slots = 2
	r := newRig(b, browser.Config{Slots: slots})
	r.page("/script", script())
	r.serveApp()
	ctx, playwright := peer(b), startPlaywright(b)
	for _, tt := range []struct {
		name, path, selector, want string
		most                       float64 // limit in milliseconds; 0 if the ratios are measured
	}{
		{"script", "/script", "", "Part 59", 0},
		{"app", "/app", "p.item:nth-child(100)", "item 99", 200},
	} {
		b.Run(tt.name, func(b *testing.B) {
			local := fmt.Sprintf("http://127.0.0.1:%d%s", r.port, tt.path)
			var ours, theirs, play []time.Duration
			r.must(browser.Request{URL: r.url(tt.path)}) // from here on, the Chrome runs
			for b.Loop() {
				r.rested(slots)
				if playwright != nil {
					play = append(play, playwright(local, tt.selector))
				}
				start := time.Now()
				l := r.must(browser.Request{URL: r.url(tt.path)})
				ours = append(ours, time.Since(start))
				r.rested(slots)
				start = time.Now()
				html := peerLoad(ctx, b, local, tt.selector)
				theirs = append(theirs, time.Since(start))
				if !strings.Contains(l.HTML, tt.want) || !strings.Contains(html, tt.want) {
					b.Fatalf("not all is there: %v %v", strings.Contains(l.HTML, tt.want), strings.Contains(html, tt.want))
				}
			}
			b.ReportMetric(0, "ns/op")
			own := quantile(ours, 50)
			b.ReportMetric(quantile(theirs, 50), "ms-chromedp")
			if playwright != nil {
				b.ReportMetric(quantile(play, 50), "ms-playwright")
			}
			if tt.most > 0 {
				held(b, "ms-p50", own, tt.most)
				return
			}
			b.ReportMetric(own, "ms-p50")
			held(b, "x-chromedp", own/quantile(theirs, 50), 0.5)
			if playwright != nil {
				held(b, "x-playwright", own/quantile(play, 50), 0.45)
			}
		})
	}
}

// BenchmarkStatic measures a page of 32 KB through the static lane: the door, the request
// and the conversion.
func BenchmarkStatic(b *testing.B) {
	net := fetchtest.New(b)
	f := fetch.New(fetch.Config{Door: net.Door, Burst: 1 << 30})
	b.Cleanup(func() { f.Close() })
	r, err := reader.New(reader.Config{Fetch: f})
	if err != nil {
		b.Fatal(err)
	}
	body := "<html><head><title>T</title></head><body><main><h1>Small</h1>" + strings.Repeat("<p>Some words of <a href=/x>a page</a> that has 32 KB of them, with <code>code</code>.</p>", 370) + "</main></body></html>"
	net.Serve(b, "a.example", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		io.WriteString(w, body)
	}))
	g := fetchtest.Grant(b, `
version: 1
defaults: {profile: pages}
profiles:
  pages: {net: {mode: proxy, allow: ["*"]}}
rules:
  - {id: pages, match: {tool: ReadDocs, url: "http://<public>/**"}, decision: allow}
`, "local", "http://x.example/")
	var took []time.Duration
	for b.Loop() {
		for range 10 { // a page is read fast, so each round reads ten
			start := time.Now()
			if _, err := r.Read(b.Context(), g, reader.Query{URL: "http://a.example/"}); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(start))
		}
	}
	b.ReportMetric(0, "ns/op")
	held(b, "ms-p50", quantile(took, 50), 10)
}

// BenchmarkVersion measures the start of the program, which contains this package and all
// others.
func BenchmarkVersion(b *testing.B) {
	program := filepath.Join(b.TempDir(), "belljar")
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-o", program, "../cmd/belljar")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v", out, err)
	}
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		if err := exec.CommandContext(b.Context(), program, "--version").Run(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	b.ReportMetric(0, "ns/op")
	held(b, "ms-p50", quantile(took, 50), 15)
}

// BenchmarkCold measures the first page of a pool: a box, a Chrome, a page.
func BenchmarkCold(b *testing.B) {
	r := newRig(b, browser.Config{})
	r.page("/plain", "<!doctype html><p>plain")
	for b.Loop() {
		p, err := browser.New(browser.Config{Supervisor: r.sup})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Load(b.Context(), r.grant("t"), browser.Request{URL: r.url("/plain")}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		p.Close()
		b.StartTimer()
	}
}

// BenchmarkCallers measures how many pages a second several callers get.
func BenchmarkCallers(b *testing.B) {
	r := newRig(b, browser.Config{})
	r.page("/script", script())
	for _, callers := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			r.must(browser.Request{URL: r.url("/script")})
			g := r.grant("t")
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ResetTimer()
			for range callers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := r.pool.Load(b.Context(), g, browser.Request{URL: r.url("/script")}); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
		})
	}
}

// BenchmarkMemory measures the memory of a Chrome, and of one more page that waits.
func BenchmarkMemory(b *testing.B) {
	var used [2]int64
	for i, slots := range []int{1, 9} {
		r := newRig(b, browser.Config{Slots: slots})
		r.page("/plain", "<!doctype html><p>plain")
		r.must(browser.Request{URL: r.url("/plain")})
		r.rested(slots)
		used[i] = r.sup.Boxes()[0].Used().Memory
		r.pool.Close()
	}
	for b.Loop() { // the memory is measured once, above
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(used[0])/(1<<20), "MiB/chrome")
	b.ReportMetric(float64(used[1]-used[0])/8/(1<<20), "MiB/warm-page")
}
