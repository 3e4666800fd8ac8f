package browser_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"belljar.dev/browser"
)

// script is a page of about 32 KB whose article a script writes.
func script() string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "<h2>Part %d</h2><p>%s</p>", i, strings.Repeat("Words of a page that a script wrote, with <a href='/x'>links</a>. ", 7))
	}
	return "<!doctype html><title>Script</title><main id=main></main><script>document.getElementById('main').innerHTML = " + fmt.Sprintf("%q", b.String()) + "</script>"
}

// peer is chromedp with a browser context for each call, with the same Chrome.
func peer(b *testing.B) context.Context {
	b.Helper()
	path, err := browser.Find()
	if err != nil {
		b.Skip(err)
	}
	opts := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	opts = append(opts, chromedp.ExecPath(path))
	ctx, cancel := chromedp.NewExecAllocator(b.Context(), opts...)
	b.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	b.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		b.Fatal(err)
	}
	return ctx
}

func peerLoad(ctx context.Context, b *testing.B, url, selector string) string {
	b.Helper()
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
	defer cancel()
	steps := []chromedp.Action[chromedp.Void]{chromedp.Navigate(url)}
	if selector != "" {
		steps = append(steps, chromedp.WaitReady(chromedp.CSS(selector)))
	}
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatal(err)
	}
	html, err := chromedp.Run(ctx, chromedp.OuterHTML(chromedp.CSS("html")))
	if err != nil {
		b.Fatal(err)
	}
	return html
}

// BenchmarkPaired loads pages in turn through the pool and through chromedp
// with a context per call, and prints medians and their ratio.
func BenchmarkPaired(b *testing.B) {
	r := newRig(b, browser.Config{})
	r.page("/script", script())
	r.serveApp()
	ctx, playwright := peer(b), startPlaywright(b)
	for _, tt := range []struct{ name, path, selector, want string }{
		{"script", "/script", "", "Part 59"},
		{"app", "/app", "p.item:nth-child(100)", "item 99"},
	} {
		b.Run(tt.name, func(b *testing.B) {
			local := fmt.Sprintf("http://127.0.0.1:%d%s", r.port, tt.path)
			var ours, theirs, play []time.Duration
			for b.Loop() {
				if playwright != nil {
					play = append(play, playwright(local, tt.selector))
				}
				start := time.Now()
				l := r.must(browser.Request{URL: r.url(tt.path)})
				ours = append(ours, time.Since(start))
				start = time.Now()
				html := peerLoad(ctx, b, local, tt.selector)
				theirs = append(theirs, time.Since(start))
				if !strings.Contains(l.HTML, tt.want) || !strings.Contains(html, tt.want) {
					b.Fatalf("not all is there: %v %v", strings.Contains(l.HTML, tt.want), strings.Contains(html, tt.want))
				}
			}
			b.ReportMetric(median(ours).Seconds()*1e3, "ms/page")
			b.ReportMetric(median(theirs).Seconds()*1e3, "ms/page-chromedp")
			b.ReportMetric(median(ours).Seconds()/median(theirs).Seconds(), "ratio-chromedp")
			if playwright != nil {
				b.ReportMetric(median(play).Seconds()*1e3, "ms/page-playwright")
				b.ReportMetric(median(ours).Seconds()/median(play).Seconds(), "ratio-playwright")
			}
		})
	}
}

func median(d []time.Duration) time.Duration {
	s := append([]time.Duration(nil), d...)
	for i := range s {
		for j := i; j > 0 && s[j] < s[j-1]; j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
	return s[len(s)/2]
}

// startPlaywright starts the other peer, and is nil where it is not installed
// (scripts/peers).
func startPlaywright(b *testing.B) func(url, selector string) time.Duration {
	b.Helper()
	module, err := filepath.Abs("../bin/peers/node_modules/playwright-core")
	if err != nil {
		b.Fatal(err)
	}
	program, err := browser.Find()
	if _, missing := os.Stat(module); err != nil || missing != nil {
		b.Log("playwright-core is not installed, and left out")
		return nil
	}
	c := exec.CommandContext(b.Context(), "node", "testdata/playwright.mjs", module, program)
	in, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Log(err)
		return nil
	}
	b.Cleanup(func() {
		in.Close()
		_ = c.Wait()
	})
	lines := bufio.NewScanner(out)
	lines.Scan() // ready
	return func(url, selector string) time.Duration {
		fmt.Fprintf(in, "%s %s\n", url, selector)
		if !lines.Scan() {
			b.Fatal("playwright ended")
		}
		var took float64
		if _, err := fmt.Sscan(lines.Text(), &took); err != nil {
			b.Fatal(err)
		}
		return time.Duration(took * float64(time.Millisecond))
	}
}

// BenchmarkCold is the first page of a pool: a box, a Chrome, a page.
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

// BenchmarkCallers is how many pages a second several callers get.
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

// BenchmarkMemory is what a Chrome holds, and a page more that waits.
func BenchmarkMemory(b *testing.B) {
	var used [2]int64
	for i, slots := range []int{1, 9} {
		r := newRig(b, browser.Config{Slots: slots})
		r.page("/plain", "<!doctype html><p>plain")
		r.must(browser.Request{URL: r.url("/plain")})
		for r.pool.Stats().Warm < slots {
			<-time.After(50 * time.Millisecond)
		}
		used[i] = r.sup.Boxes()[0].MemoryUsed()
		r.pool.Close()
	}
	for b.Loop() { // measured once
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(used[0])/(1<<20), "MiB/chrome")
	b.ReportMetric(float64(used[1]-used[0])/8/(1<<20), "MiB/warm-page")
}
