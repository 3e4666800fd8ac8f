package metrics

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/golden"
)

// scrape returns the exposition that a client gets with an Accept header.
func scrape(t *testing.T, r *Registry, accept string) (text, media string) {
	t.Helper()
	w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
	req.Header.Set("Accept", accept)
	r.ServeHTTP(w, req)
	return w.Body.String(), w.Header().Get("Content-Type")
}

// The two forms are as the parsers of prometheus/common and of OpenMetrics in client_python
// read them.
func TestForms(t *testing.T) {
	r := New("folded_total")
	tool := r.Label("tool", 2)
	calls := r.Counter("calls_total", `Calls; "quoted", with a \ and`+"\n"+`a line.`, tool)
	calls.Add(1, "Bash")
	calls.Add(2, "Bash")
	calls.Add(1, "a\"b\\c\nd")
	took := r.Histogram("took_seconds", "How long.", []float64{0.5, 1, 2.5}, tool)
	took.Observe(0.5, nil, "Bash") // a value equal to a bound belongs to the bucket of this bound
	took.Observe(0.75, []Pair{{"trace_id", "5f"}, {"call_id", "c-1"}}, "Bash")
	took.Observe(99, []Pair{{"call_id", "c-2"}}, "Bash")
	took.Observe(1, nil, "third") // value beyond the label's bound
	r.GaugeFunc("boxes", "Open boxes.", []*Label{tool}, func(set Set) {
		set(1, "fourth")
		set(2, "fifth")
		set(0.25, "Bash")
	})
	r.GaugeFunc("nothing", "No label.", nil, func(set Set) { set(7) })
	for name, accept := range map[string]string{"plain": "text/plain", "open": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"} {
		text, media := scrape(t, r, accept)
		text = regexp.MustCompile(`\d{10}\.\d{3}`).ReplaceAllString(text, "TIME")
		golden.Equal(t, name+".golden", media+"\n"+text)
	}
}

// A label keeps its bound with any number of values, and the folded values are counted.
func TestSeriesAreBounded(t *testing.T) {
	r := New("folded_total")
	tenant, tool := r.Label("tenant", 64), r.Label("tool", 100)
	calls, took := r.Counter("calls_total", "Calls.", tenant), r.Histogram("took_seconds", "Time.", []float64{1, 2}, tool)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	name := func() string { return fmt.Sprintf("n%x", random.Uint64()) }
	fill := func(n int) int {
		for range n {
			calls.Add(1, name())
			took.Observe(random.Float64()*3, nil, name())
		}
		text, _ := scrape(t, r, "")
		return strings.Count(text, "\n")
	}
	before := fill(1000)
	if after := fill(100_000); after != before {
		t.Errorf("%d lines after 1,000 random names, %d after 100,000 more", before, after)
	}
	text, _ := scrape(t, r, "")
	for _, want := range []string{
		`folded_total{label="tenant"} 100936`, `folded_total{label="tool"} 100900`,
		`calls_total{tenant="_other"} 100936`, `took_seconds_count{tool="_other"} 100900`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
}

// Counting and scraping at the same time is safe.
func TestAtOnce(t *testing.T) {
	r := New("folded_total")
	r.AddProcess(time.Now())
	calls, took := r.Counter("calls_total", "Calls.", r.Label("tool", 3)), r.Histogram("took_seconds", "Time.", []float64{1})
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 500 {
				calls.Add(1, fmt.Sprint(i%5))
				took.Observe(float64(i), []Pair{{"n", "1"}})
				if i%100 == n {
					scrape(t, r, "application/openmetrics-text")
				}
			}
		})
	}
	wg.Wait()
	text, _ := scrape(t, r, "")
	if !strings.Contains(text, "took_seconds_count 4000\n") {
		t.Errorf("observations were lost:\n%s", text)
	}
}

// The families of the process have values.
func TestProcess(t *testing.T) {
	r := New("folded_total")
	r.AddProcess(time.UnixMilli(1_500_000_000_250))
	text, _ := scrape(t, r, "")
	for _, want := range []string{
		`go_goroutines [1-9]`, `go_memstats_heap_alloc_bytes [1-9]`, `go_memstats_sys_bytes [1-9]`, `go_gc_cycles_total \d`, `go_info\{version="go1`,
		`process_start_time_seconds 1\.50000000025e\+09`, `process_cpu_seconds_total \d`, `process_resident_memory_bytes [1-9]`, `process_open_fds [1-9]`, `process_max_fds [1-9]`,
	} {
		if !regexp.MustCompile(`(?m)^` + want).MatchString(text) {
			t.Errorf("no line like %s in\n%s", want, text)
		}
	}
}
