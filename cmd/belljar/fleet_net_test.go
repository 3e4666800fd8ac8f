package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/internal/nettest"
	"belljar.dev/internal/testenv"
)

// workersOfNet is the number of workers of a fleet in a network. With its three fronts, the
// fleet has eight processes.
const workersOfNet = 5

// netPolicy has one place for each worker.
const netPolicy = `version: 1
defaults: {decision: allow, profile: offline}
profiles: {offline: {fs: {system: true, workspace: rw}, limits: {pids: 4000, background: 10m, jobs: 200}}}
tenants:
  a: {token: "${env:TOKEN_ONE}", places: [p1, p2, p3, p4, p5], limit: {in_flight: 300, boxes: 20, burst: 100000}}
`

// netted is a fleet whose nodes are hosts of a network of its own.
type netted struct {
	*grid
	fronts  []*node
	workers []*node
}

// newNetted starts three fronts, and workers that each have one place: worker w1 has the
// place with the path /w/p1/mcp.
func newNetted(t testing.TB, workers int) *netted {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Tun, testenv.UserNamespaces, testenv.Bash)
	g := &netted{grid: newGrid(t)}
	g.net = nettest.New(t, 1)
	if err := os.WriteFile(g.path("policy.yaml"), []byte(netPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range workers {
		names = append(names, fmt.Sprintf("w%d", i+1))
		for _, sub := range []string{"workspace", "state"} { // a worker that has the directory has the place
			if err := os.MkdirAll(filepath.Join(filepath.Dir(g.place(i)), sub), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 3 {
		g.fronts = append(g.fronts, g.front(fmt.Sprintf("front%d", i+1), "--workers", strings.Join(names, ",")))
	}
	for _, name := range names {
		g.workers = append(g.workers, g.worker(name, g.fronts...))
	}
	// By their names, the places would belong to other workers. So each front must know the
	// owner of each place before the link of a worker ends.
	for _, f := range g.fronts {
		if !testenv.Until(20*time.Second*testenv.Patience(t), func() bool {
			text, _ := os.ReadFile(filepath.Join(g.path(f.name), "claims"))
			return bytes.Count(text, []byte("\n")) >= workers
		}) {
			t.Fatalf("%s does not know whose the places are\n%s", f.name, g.log(f.name))
		}
	}
	return g
}

// place returns the workspace of a worker's place.
func (g *netted) place(worker int) string {
	return g.path(fmt.Sprintf("w%d/places/a/p%d/workspace", worker+1, worker+1))
}

// url returns the URL at which a front serves a worker's place.
func (g *netted) url(front, worker int) string {
	return fmt.Sprintf("%s/w/p%d/mcp", g.fronts[front].url, worker+1)
}

// cable changes the connection between a worker and the first front.
func (g *netted) cable(worker int, toFront, toWorker nettest.Wire) {
	f, w := g.fronts[0].host, g.workers[worker].host
	g.net.Set(w, f, toFront)
	g.net.Set(f, w, toWorker)
}

// links returns how many links a worker has made.
func (g *netted) links(worker int) int {
	return strings.Count(g.log(g.workers[worker].name), "a front is linked")
}

// TestFleetCables checks a cable that is cut, in both directions or in one: callers get an
// error, and the command runs on, once, as a background task that another front finds.
func TestFleetCables(t *testing.T) {
	// Fifteen links need a processor for their pings, and an emulated processor is too slow
	// for that.
	workers, rounds := workersOfNet, 1
	switch {
	case testenv.Patience(t) > 1:
		workers, rounds = 1, 3
	case os.Getenv("BELLJAR_TEST_CLUSTER") != "":
		rounds = 4
	}
	g := newNetted(t, workers)
	good, cut := nettest.Wire{}, nettest.Wire{Cut: true}
	kinds := []struct {
		name              string
		toFront, toWorker nettest.Wire
	}{{"both", cut, cut}, {"to the front", cut, good}, {"to the worker", good, cut}}
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for round := range rounds {
				kind := kinds[(w+round)%len(kinds)]
				what := fmt.Sprintf("worker %d, round %d, cut %s", w+1, round, kind.name)
				if at := g.cutOff(t, what, w, round, kind.toFront, kind.toWorker); at > 0 {
					mu.Lock()
					took = append(took, at)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if len(took) > 0 {
		t.Logf("S3: %d cuts, told: p50 %v, p99 %v", len(took), quantile(took, 0.5), quantile(took, 0.99))
	}
}

// cutOff cuts a cable once while a command runs. It returns how long the caller got no
// answer.
func (g *netted) cutOff(t *testing.T, what string, w, round int, toFront, toWorker nettest.Wire) (silent time.Duration) {
	patience := 30 * time.Second * testenv.Patience(t)
	file := func(kind string) string { return filepath.Join(g.place(w), fmt.Sprintf("%s-%d", kind, round)) }
	answers := make(chan told, 1)
	go func() {
		answers <- g.long(t.Context(), g.url(0, w), "cut", fmt.Sprintf("echo x >>begun-%d; while [ ! -e go-%d ]; do sleep 0.1; done; echo x >>done-%d", round, round, round))
	}()
	is := func(path, want string) func() bool {
		return func() bool {
			text, _ := os.ReadFile(path)
			return string(text) == want
		}
	}
	if !testenv.Until(patience, is(file("begun"), "x\n")) {
		t.Errorf("%s: the command does not begin: %s", what, g.log("front1"))
		return 0
	}
	before := g.links(w)
	g.cable(w, toFront, toWorker)
	began := time.Now()
	select {
	case a := <-answers:
		silent = a.at.Sub(began)
		if !a.lost || !strings.Contains(a.text, "ran: unknown") || a.id != "cut" {
			t.Errorf("%s: %+v", what, a)
		}
	case <-time.After(patience):
		t.Errorf("%s: the caller is not told", what)
		return 0
	}
	var list told
	if !testenv.Until(patience, func() bool {
		list = askTool(t.Context(), g.url(1, w), "one", "list", "ListBgTasks", map[string]any{})
		return strings.Count(list.text, "] running") == 1
	}) {
		t.Errorf("%s: another front does not find the command: %+v", what, list)
	}
	g.cable(w, nettest.Wire{}, nettest.Wire{})
	if !testenv.Until(patience, func() bool { return g.links(w) > before }) {
		t.Errorf("%s: the worker is not linked again\n%s", what, g.log(g.workers[w].name))
	}
	if err := os.WriteFile(file("go"), nil, 0o666); err != nil {
		t.Error(err)
	}
	if !testenv.Until(patience, is(file("done"), "x\n")) || !is(file("begun"), "x\n")() {
		t.Errorf("%s: the command did not run to its end once", what)
	}
	return silent
}

// TestFleetBadLink checks a link that is long and loses packets: large answers, progress
// and streams arrive completely, and other calls run meanwhile.
func TestFleetBadLink(t *testing.T) {
	g := newNetted(t, 1)
	bad, cut := nettest.Wire{Delay: 50 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 0.01}, nettest.Wire{Cut: true}
	linked, patience := g.links(0), 30*time.Second*testenv.Patience(t)
	g.cable(0, cut, cut) // for a new link: the kernel keeps the shortest round trip of five minutes
	if !testenv.Until(patience, func() bool { return strings.Contains(g.log("front1"), "a worker is not linked any more") }) {
		t.Fatalf("the link does not end\n%s", g.log("front1"))
	}
	g.cable(0, bad, bad)
	if !testenv.Until(patience, func() bool { return g.links(0) > linked }) {
		t.Fatalf("the worker is not linked again\n%s", g.log("w1"))
	}
	if !testenv.Until(patience, func() bool { return strings.Contains(g.log("front1"), "a link has its bulk connection") }) {
		t.Fatalf("a long link has no bulk connection\n%s", g.log("w1"))
	}
	size := 32 << 10 // in bytes; JSON writes each byte as six
	if os.Getenv("BELLJAR_TEST_CLUSTER") != "" {
		size = 128 << 10
	}
	url := g.url(0, 0)
	if a := ask(t.Context(), url, "one", "1", "true"); a.failed || a.err != nil {
		t.Fatalf("%+v", a)
	}
	rounds := min(many(), 30)
	var small []time.Duration
	for i := range rounds {
		began := time.Now()
		if a := ask(t.Context(), url, "one", fmt.Sprint(i), "echo small"); a.err != nil || !strings.Contains(a.text, "small") {
			t.Fatalf("%+v", a)
		}
		small = append(small, time.Since(began))
	}
	var congestion []byte
	if err := g.workers[0].host.Do(func() (err error) {
		congestion, err = os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("S11: on a link of 100 ms there and back with %s, alone: p50 %v, p99 %v", bytes.TrimSpace(congestion), quantile(small, 0.5), quantile(small, 0.99))
	var over atomic.Bool
	var mu sync.Mutex
	arrived := 0
	var large sync.WaitGroup
	for i := range 2 {
		large.Go(func() {
			for j := 0; !over.Load() || j == 0; j++ {
				a := askTool(t.Context(), url, "one", fmt.Sprintf("%d-%d", i, j), "Bash", map[string]any{
					"command": fmt.Sprintf("for i in 1 2 3; do echo; sleep 0.3; done; head -c %d /dev/zero | tr '\\0' '\\1'", size), "max_output_bytes": size,
				})
				if a.err != nil || a.failed || strings.Count(a.text, "\x01") < size-100 || a.progress == 0 {
					t.Errorf("a large answer: %v, %d characters, %d reports of progress: %.50q", a.err, len(a.text), a.progress, a.text)
					return
				}
				mu.Lock()
				arrived += a.size
				mu.Unlock()
			}
		})
	}
	small = nil
	for i := range rounds {
		began := time.Now()
		if a := ask(t.Context(), url, "one", fmt.Sprint(i), "echo small"); a.err != nil || !strings.Contains(a.text, "small") {
			t.Errorf("%+v", a)
		}
		small = append(small, time.Since(began))
	}
	over.Store(true)
	large.Wait()
	t.Logf("S11: beside %d KiB of large answers: p50 %v, p99 %v", arrived>>10, quantile(small, 0.5), quantile(small, 0.99))
	f, w := g.fronts[0].host, g.workers[0].host
	if c := g.net.Count(w, f); c.Lost == 0 || c.Passed < 50 {
		t.Errorf("the link was not bad: %+v", c)
	}
}
