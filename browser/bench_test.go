package browser_test

import (
	"context"
	"fmt"
	"strings"
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

func peerLoad(b *testing.B, ctx context.Context, url, selector string) string {
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
	ctx := peer(b)
	for _, tt := range []struct{ name, path, selector, want string }{
		{"script", "/script", "", "Part 59"},
		{"app", "/app", "p.item:nth-child(100)", "item 99"},
	} {
		b.Run(tt.name, func(b *testing.B) {
			local := fmt.Sprintf("http://127.0.0.1:%d%s", r.port, tt.path)
			var ours, theirs []time.Duration
			for b.Loop() {
				start := time.Now()
				l := r.must(browser.Request{URL: r.url(tt.path)})
				ours = append(ours, time.Since(start))
				start = time.Now()
				html := peerLoad(b, ctx, local, tt.selector)
				theirs = append(theirs, time.Since(start))
				if !strings.Contains(l.HTML, tt.want) || !strings.Contains(html, tt.want) {
					b.Fatalf("not all is there: %v %v", strings.Contains(l.HTML, tt.want), strings.Contains(html, tt.want))
				}
			}
			b.ReportMetric(median(ours).Seconds()*1e3, "ms/page")
			b.ReportMetric(median(theirs).Seconds()*1e3, "ms/page-chromedp")
			b.ReportMetric(median(ours).Seconds()/median(theirs).Seconds(), "ratio")
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
