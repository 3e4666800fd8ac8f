package browser_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/internal/testenv"
)

// BenchmarkCancel measures the time from the end of a call's context until Chrome reports
// that the page is closed.
func BenchmarkCancel(b *testing.B) {
	for _, tt := range []struct{ name, html string }{
		{"waits", `<!doctype html><p>one<img src=/never>`},
		{"spins", `<!doctype html><p>one<img src=/never><script>setTimeout(() => { for (;;); }, 20)</script>`},
		{"works", `<!doctype html><p>one<img src=/never><script>
			const u = URL.createObjectURL(new Blob(["for (;;);"])); for (let i = 0; i < 20; i++) new Worker(u);</script>`},
		{"clings", `<!doctype html><p>one<img src=/never><script>onbeforeunload = (e) => { e.preventDefault(); return "no"; }; onunload = onpagehide = () => { for (;;); }</script>`},
	} {
		b.Run(tt.name, func(b *testing.B) {
			r := newRig(b, browser.Config{})
			begun := make(chan bool, 1)
			r.page("/", tt.html)
			r.mux.HandleFunc("/never", func(_ http.ResponseWriter, req *http.Request) {
				begun <- true
				<-req.Context().Done()
			})
			r.page("/plain", "<!doctype html><p>plain")
			var took []time.Duration
			for b.Loop() {
				r.must(browser.Request{URL: r.url("/plain")}) // makes sure that a Chrome runs and works
				closed := r.pool.Closings()
				ctx, cancel := context.WithCancel(b.Context())
				done := make(chan error, 1)
				go func() {
					_, err := r.pool.Load(ctx, r.grant("t"), browser.Request{URL: r.url("/")})
					done <- err
				}()
				<-begun
				testenv.Delay(b.Context(), 100*time.Millisecond) // so that the page is loading
				for len(closed) > 0 {
					<-closed // the page of the load before
				}
				start := time.Now()
				cancel()
				<-closed
				took = append(took, time.Since(start))
				if err := <-done; err == nil {
					b.Fatal("the call went on")
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(quantile(took, 50), "ms-p50")
			held(b, "ms-p99", quantile(took, 99), 200)
		})
	}
}
