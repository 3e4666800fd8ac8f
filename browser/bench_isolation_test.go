package browser_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/internal/testenv"
)

// BenchmarkIsolation measures the CPU time that all processes involved need for a page: in
// a box and behind a door as in the pool, and in a Chrome that has neither and has no
// sandbox of its own.
func BenchmarkIsolation(b *testing.B) {
	const slots = 1
	r := newRig(b, browser.Config{Slots: slots})
	r.page("/script", script())
	program, err := browser.Find()
	if err != nil {
		b.Skip(err)
	}
	bare, err := browser.StartBare(b.Context(), program, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { bare.Close() })
	local := browser.Request{URL: fmt.Sprintf("http://127.0.0.1:%d/script", r.port)}
	boxed := func() {
		r.must(browser.Request{URL: r.url("/script")})
		r.rested(slots)
	}
	open := func() {
		if _, err := bare.Load(b.Context(), local); err != nil {
			b.Fatal(err)
		}
	}
	var in, out time.Duration
	pages := 0
	boxed()
	open()
	for b.Loop() {
		for i, load := range []func(){boxed, open, open, boxed} {
			before := cpu()
			for range 5 {
				load()
			}
			if used := cpu() - before; i == 0 || i == 3 {
				in += used
			} else {
				out += used
			}
		}
		pages += 10
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(in.Seconds()*1e3/float64(pages), "cpu-ms/page")
	b.ReportMetric(out.Seconds()*1e3/float64(pages), "cpu-ms/page-bare")
	held(b, "x-bare", in.Seconds()/out.Seconds(), 1.05)
}

// cpu returns the CPU time of this process and all its descendants, including those that
// have ended.
func cpu() (total time.Duration) {
	for _, p := range testenv.Below(testenv.Processes(), os.Getpid()) {
		total += p.CPU
	}
	return total
}
