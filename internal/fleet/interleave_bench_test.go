package fleet

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// BenchmarkLargeAnswer reads answers of 10 MiB through a front and a worker, and directly, by
// turns.
func BenchmarkLargeAnswer(b *testing.B) {
	piece := make([]byte, 64<<10)
	handler := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		for range 160 {
			_, _ = rw.Write(piece)
		}
	})
	r := newRig(b, nil)
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), handler, "p")
	r.says("p", 200, "")
	direct := httptest.NewServer(handler)
	defer direct.Close()
	var took [2]time.Duration
	for b.Loop() {
		for i, url := range []string{r.http.URL + "/p/mcp", direct.URL} {
			began := time.Now()
			res, err := http.Post(url, "application/json", strings.NewReader(`{"id":1}`))
			if err != nil {
				b.Fatal(err)
			}
			n, err := io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if n != 10<<20 || err != nil {
				b.Fatal(n, err)
			}
			took[i] += time.Since(began)
		}
	}
	b.ReportMetric(float64(b.N)*10/took[0].Seconds(), "MiB/s")
	b.ReportMetric(float64(took[1])/float64(took[0]), "of-direct")
	b.ReportMetric(0, "ns/op")
}
