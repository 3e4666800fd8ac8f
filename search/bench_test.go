package search_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/search"
	"belljar.dev/search/engine"
	"belljar.dev/search/searchtest"
)

// mocksEnv turns the test binary into the engines of a benchmark, so that the work of the
// engines is not measured as ours.
const mocksEnv = "BELLJAR_SEARCH_MOCKS"

func TestMain(m *testing.M) {
	if kind := os.Getenv(mocksEnv); kind != "" {
		serveMocks(kind)
		return
	}
	testenv.Main(m)
}

// The engines of the benchmark: seven answer after 300 ms at the median, with a spread like
// that of real engines; one hangs, one refuses, one asks for a captcha, and one breaks off.
const (
	medianLate = 300 * time.Millisecond
	sigmaLate  = 0.55
	// In the second round, each of the seven sometimes fails: probability that an engine
	// fails, and that it hangs.
	failsNow, hangsNow = 0.02, 0.01
)

var wellEngines = []string{"duckduckgo", "brave", "mojeek", "startpage", "wikipedia", "stackexchange", "arxiv"}

// serveMocks runs the process of the engines until its input ends.
func serveMocks(kind string) {
	s, err := searchtest.Start()
	if err != nil {
		panic(err)
	}
	defer s.Close()
	for _, e := range searchtest.Defaults() {
		good := e.Write(searchtest.Made(e.Name, 10))
		switch e.Name {
		case "keenable":
			s.Set(e, searchtest.Hang)
		case "github":
			s.Set(e, searchtest.Refuse(http.StatusTooManyRequests, 0))
		case "bing":
			s.Set(e, searchtest.Blocked(e))
		case "hackernews":
			s.Set(e, searchtest.Truncated(good))
		default:
			s.Set(e, drawn(e, kind, searchtest.Zipped(good)))
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(s.Way()); err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// drawn returns a behaviour that answers a query, late or not at all, in the same way for
// all callers.
func drawn(e searchtest.Engine, kind string, good searchtest.Behaviour) searchtest.Behaviour {
	return func(w http.ResponseWriter, r *http.Request) {
		tag := searchtest.Tag(r, "benchmark")
		switch d := searchtest.Drawn(e.Name, tag); {
		case kind == "flaky" && tag != "" && d < failsNow:
			http.Error(w, "now and then", http.StatusBadGateway)
			return
		case kind == "flaky" && tag != "" && d < failsNow+hangsNow:
			searchtest.Hang(w, r)
			return
		}
		late := lateness(e.Name, tag)
		t := time.NewTimer(late)
		defer t.Stop()
		select {
		case <-t.C:
			good(w, r)
		case <-r.Context().Done():
		}
	}
}

// lateness returns how late an engine answers a query. The queries are spread evenly over
// the distribution of each engine, and of all engines together (a Kronecker sequence of the
// seven roots of x^8 = x+1), so that a few queries show what many would. A request without
// a query, such as the first page with a token, is answered immediately.
func lateness(name, tag string) time.Duration {
	n, err := strconv.Atoi(tag)
	if err != nil {
		return 0
	}
	const root = 1.0969815577985598
	k := slices.Index(wellEngines, name) + 1
	_, u := math.Modf(0.5 + float64(n)*math.Pow(root, -float64(k)))
	z := math.Sqrt2 * math.Erfinv(2*min(max(u, 1e-6), 1-1e-6)-1)
	return time.Duration(float64(medianLate) * math.Exp(sigmaLate*z))
}

// expected returns the pages that can be found for a query: those of the engines that
// answer it.
func expected(kind, tag string) map[string]bool {
	all := make(map[string]bool)
	for _, name := range wellEngines {
		if kind == "flaky" && searchtest.Drawn(name, tag) < failsNow+hangsNow {
			continue
		}
		for _, r := range searchtest.Made(name, 10) {
			if name == "wikipedia" {
				r.URL = "https://en.wikipedia.org/wiki/" + strings.ReplaceAll(r.Title, " ", "_")
			}
			all[r.URL] = true
		}
	}
	return all
}

// BenchmarkFan measures eleven engines, four of them faulty. The fan and a client that
// waits for all engines ask them in turn.
func BenchmarkFan(b *testing.B) {
	for _, kind := range []string{"sick", "flaky"} {
		b.Run(kind, func(b *testing.B) { benchFan(b, kind) })
	}
}

func benchFan(b *testing.B, kind string) {
	way := startMocks(b, kind)
	policy := searchPolicy(b, browsing, searchtest.Defaults()...)
	grant := policy.Decide(policies.Facts{Tenant: "bench", Tool: "WebSearch"}).Grant
	engines := unrated(b)
	fan, err := search.New(search.Config{Engines: engines, Door: way.Door(nil)})
	if err != nil {
		b.Fatal(err)
	}
	defer fan.Close()
	everybody, err := newWaitAll(engines(), grant, way)
	if err != nil {
		b.Fatal(err)
	}
	defer everybody.door.Close()
	var ours, theirs []time.Duration
	var recall, recallAll, cpu float64
	const warm = 2
	n := 0
	for b.Loop() {
		tag := fmt.Sprint(1000 + n)
		q := search.Query{Text: "benchmark" + tag + " things", MaxResults: 50}
		before, start := used(b), time.Now()
		report, err := fan.Search(b.Context(), grant, q)
		took := time.Since(start)
		if err != nil {
			b.Fatal(err)
		}
		want := expected(kind, tag)
		if n >= warm {
			ours = append(ours, took)
			recall += share(report.Results, want)
		}
		settle(fan)
		if n >= warm {
			cpu += (used(b) - before).Seconds()
		}
		// Waiting for all always takes its whole time, so a few queries are enough to
		// measure it.
		if n%12 == 0 {
			start = time.Now()
			found := everybody.search(b.Context(), q)
			theirs = append(theirs, time.Since(start))
			recallAll += share(found, want)
		}
		n++
	}
	counted := float64(len(ours))
	if counted == 0 {
		return
	}
	b.ReportMetric(quantile(ours, 0.5).Seconds()*1000, "p50-ms")
	b.ReportMetric(quantile(ours, 0.95).Seconds()*1000, "p95-ms")
	b.ReportMetric(recall/counted, "recall")
	b.ReportMetric(cpu/counted*1000, "cpu-ms/query")
	b.ReportMetric(quantile(theirs, 0.5).Seconds()*1000, "waitall-p50-ms")
	b.ReportMetric(quantile(theirs, 0.95).Seconds()*1000, "waitall-p95-ms")
	b.ReportMetric(recallAll/float64(len(theirs)), "waitall-recall")
	b.ReportMetric(0, "ns/op")
}

// settle waits until the flights have ended, so that their work is counted for the right
// query.
func settle(fan *search.Fan) {
	tick := time.NewTicker(50 * time.Millisecond) // a long interval, because checking takes processor time too
	defer tick.Stop()
	for fan.Underway() > 0 {
		<-tick.C
	}
}

// startMocks starts the process of the engines.
func startMocks(b *testing.B, kind string) searchtest.Way {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), mocksEnv+"="+kind)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	var way searchtest.Way
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&way); err != nil {
		b.Fatal(err)
	}
	return way
}

// waitAll is the usual way to ask many engines: ask all at the same time, and wait for the
// last answer or for three seconds.
type waitAll struct {
	engines []*engine.Engine
	door    search.Door
}

const waitAllFor = 3 * time.Second

func newWaitAll(engines *engine.Set, g policies.Grant, way searchtest.Way) (*waitAll, error) {
	w := &waitAll{}
	for _, e := range searchtest.Defaults() {
		w.engines = append(w.engines, engines.Find(e.Name))
	}
	var err error
	w.door, err = way.Door(nil)(g)
	return w, err
}

func (w *waitAll) search(ctx context.Context, q search.Query) []search.Result {
	ctx, cancel := context.WithTimeout(ctx, waitAllFor)
	defer cancel()
	client := w.door.Client()
	hits := make([][]engine.Hit, len(w.engines))
	var all sync.WaitGroup
	for i, e := range w.engines {
		all.Go(func() {
			x, err := e.Exchange(engine.Query{Text: q.Text, MaxResults: q.MaxResults}, nil)
			if err != nil {
				return
			}
			for {
				r, more := x.Next()
				if !more {
					hits[i] = x.Parsed().Hits
					return
				}
				resp, err := send(ctx, client, r)
				if err != nil {
					return
				}
				x.Answer(resp)
			}
		})
	}
	all.Wait()
	var found []search.Result
	for _, h := range slices.Concat(hits...) {
		found = append(found, search.Result{URL: h.URL})
	}
	return found
}

func send(ctx context.Context, client *http.Client, r engine.Request) (engine.Response, error) {
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, body)
	if err != nil {
		return engine.Response{}, err
	}
	req.Header = r.Header.Clone()
	req.Header.Del("Accept-Encoding")
	resp, err := client.Do(req)
	if err != nil {
		return engine.Response{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, engine.MaxBody))
	return engine.Response{Status: resp.StatusCode, Header: resp.Header, Body: text, FinalURL: r.URL}, err
}

// share returns the part of the expected pages that was found.
func share(found []search.Result, want map[string]bool) float64 {
	seen := make(map[string]bool)
	for _, r := range found {
		if want[r.URL] {
			seen[r.URL] = true
		}
	}
	return float64(len(seen)) / float64(len(want))
}

func quantile(all []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// used returns the processor time of this process.
func used(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
