package console

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"belljar.dev/mcp/tools"
)

// growing is a task that can write while its output is read.
type growing struct {
	runs
	mu sync.Mutex
}

func (f *growing) Output(session string, task, from int64, most int) (tools.OutputPart, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.runs.Output(session, task, from, most)
	p.Text = bytes.Clone(p.Text)
	return p, err
}

// write appends lines to the output until it has grown by size bytes.
func (f *growing) write(size int, line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for end := len(f.output) + size; len(f.output) < end; {
		f.output = append(f.output, line...)
	}
}

// BenchmarkLiveOutput follows a task that writes a megabyte per second, for 20 seconds in
// each iteration. It reports the largest heap of the page, and the longest time for which
// the page does not react. The bounds of WC8 are 80 MB and 200 ms, for one minute.
func BenchmarkLiveOutput(b *testing.B) {
	out := &growing{}
	g := start(b, full, func(_ *rig, v *Views) { v.Runs = out })
	p := g.open(chrome(b))
	p.login(Viewer)
	must(b)(chromedp.Call(p.ctx, performance.Enable, performance.EnableParams{}))
	p.at("#/jobs/s-1/3")
	p.until(`document.querySelector('.output')`)
	p.eval(`window.longest = 0; new PerformanceObserver(list => list.getEntries().forEach(e => { window.longest = Math.max(window.longest, e.duration) })).observe({type: 'longtask'})`)
	heap, second := 0.0, time.NewTicker(time.Second/10)
	defer second.Stop()
	n := 0
	for b.Loop() {
		for range 200 {
			<-second.C
			n++
			out.write(100_000, fmt.Sprintf("\x1b[3%dm%d ok\x1b[0m 0123456789 0123456789 0123456789 0123456789\n", n%8, n))
			if n%10 > 0 {
				continue
			}
			got, err := chromedp.Call(p.ctx, performance.GetMetrics, struct{}{})
			if err != nil {
				b.Fatal(err)
			}
			for _, m := range got.Metrics {
				if m.Name == "JSHeapUsedSize" {
					heap = max(heap, m.Value/1e6)
				}
			}
		}
	}
	// the page has shown all output
	p.until(fmt.Sprintf(`document.querySelector('.output').innerText.includes('%d ok')`, n))
	b.ReportMetric(heap, "MB-heap")
	b.ReportMetric(value[float64](p, `window.longest`), "ms-longest")
	b.ReportMetric(float64(len(out.output))/1e6, "MB-written")
}

// BenchmarkTab opens a page in one more tab of a person who is logged in. It reports the
// slowest first paint, and the longest time until the page shows its numbers. The bounds
// are 150 ms (WC26) and one second (WC9).
func BenchmarkTab(b *testing.B) {
	g := start(b, full)
	browser := chrome(b)
	p := g.open(browser)
	p.login(Viewer)
	paint, shown := 0.0, 0.0
	for b.Loop() {
		for range 3 {
			next := g.open(browser)
			next.visit(g.URL())
			next.until(`window.filled ||= document.querySelector('.tile') && performance.now()`)
			paint = max(paint, value[float64](next, `performance.getEntriesByName('first-contentful-paint')[0].startTime`))
			shown = max(shown, value[float64](next, `window.filled`))
		}
	}
	b.ReportMetric(paint, "ms-paint")
	b.ReportMetric(shown, "ms-shown")
}
