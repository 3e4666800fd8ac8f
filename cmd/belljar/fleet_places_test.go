package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// TestFleetNewPlaces checks that two fronts that get requests for the same new places at
// the same time make each place once, at the worker that both choose, and that every caller
// is answered. A front that starts again knows all places.
func TestFleetNewPlaces(t *testing.T) {
	n := 20
	if os.Getenv("BELLJAR_TEST_CLUSTER") != "" {
		n = 10 * many()
	}
	g := newGrid(t)
	places := g.tenants(n, "")
	fronts := []*node{g.front("front1", "--workers", "w1,w2"), g.front("front2", "--workers", "w1,w2")}
	workers := []*node{g.worker("w1", fronts...), g.worker("w2", fronts...)}
	room := make(chan struct{}, 16)
	var again atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	began := time.Now()
	for _, p := range places {
		for _, f := range fronts {
			all.Go(func() {
				room <- struct{}{}
				defer func() { <-room }()
				asked := time.Now()
				a := askTool(t.Context(), f.url+p.path, p.tenant, "1", "ListBgTasks", map[string]any{})
				// a busy machine may stop a worker for more than 1.5 s; the worker is then
				// lost, and the agent asks again
				for range 10 {
					if !a.lost && a.status != http.StatusServiceUnavailable {
						break
					}
					again.Add(1)
					a = askTool(t.Context(), f.url+p.path, p.tenant, "1", "ListBgTasks", map[string]any{})
				}
				mu.Lock()
				defer mu.Unlock()
				if took = append(took, time.Since(asked)); a.err != nil || a.failed || a.status != 200 {
					t.Errorf("%+v by %s: %+v", p, f.name, a)
				}
			})
		}
	}
	all.Wait()
	t.Logf("S8: %d new places by two fronts at once in %v, asked again %d times: p50 %v, p99 %v", n, time.Since(began), again.Load(), quantile(took, 0.5), quantile(took, 0.99))
	made := make(map[string]int)
	for _, w := range workers {
		dirs, err := filepath.Glob(filepath.Join(g.path(w.name), "places", "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range dirs {
			made[strings.TrimPrefix(d, g.path(w.name))]++
		}
		t.Logf("%s has %d places, and %d KiB", w.name, len(dirs), resident(t, w)>>10)
		if len(dirs) < n/5 {
			t.Errorf("worker %s has %d of %d places", w.name, len(dirs), n)
		}
	}
	if len(made) != n {
		t.Errorf("%d places were made, want %d", len(made), n)
	}
	for place, count := range made {
		if count != 1 {
			t.Errorf("place %s is on %d workers", place, count)
		}
	}
	link := fronts[1].link
	fronts[1].end()
	fresh := g.front("front2", "--workers", "w1,w2", "--link", link)
	asked := time.Now()
	if !testenv.Until(20*time.Second*testenv.Patience(t), func() bool {
		out, _ := g.command("fleet", "status", "--state", g.path("front2")).CombinedOutput()
		return strings.Contains(string(out), fmt.Sprintf("2 workers, %d places", n))
	}) {
		t.Error("a front that starts anew does not learn which places there are")
	}
	t.Logf("%d places are known again to a front %v after it began", n, time.Since(asked))
	if a := askTool(t.Context(), fresh.url+places[0].path, places[0].tenant, "1", "ListBgTasks", map[string]any{}); a.failed || a.status != 200 {
		t.Errorf("by a front that has started anew: %+v", a)
	}
}

// gridPlace is a place of a tenant. The tenant's name is also its token.
type gridPlace struct{ tenant, path string }

// tenants writes a policy with n places, for as few tenants as possible. limit is added to
// the limits of each tenant.
func (g *grid) tenants(n int, limit string) (all []gridPlace) {
	g.t.Helper()
	const each = 50 // places of a tenant; a policy may name 64
	var text strings.Builder
	begin, _, _ := strings.Cut(gridPolicy, "tenants:")
	text.WriteString(begin + "tenants:\n")
	for i := 0; len(all) < n; i++ {
		tenant := fmt.Sprintf("t%d", i)
		g.env = append(g.env, fmt.Sprintf("TOKEN_%d=%x", i, sha256.Sum256([]byte(tenant))))
		all = append(all, gridPlace{tenant, "/mcp"})
		var names []string
		for j := 0; j < each && len(all) < n; j++ {
			names = append(names, fmt.Sprintf("p%d", j))
			all = append(all, gridPlace{tenant, fmt.Sprintf("/w/p%d/mcp", j)})
		}
		fmt.Fprintf(&text, "  %s: {token: \"${env:TOKEN_%d}\", places: [%s], limit: {calls: 100000/s, burst: 100000%s}}\n", tenant, i, strings.Join(names, ", "), limit)
	}
	if err := os.WriteFile(g.path("policy.yaml"), []byte(text.String()), 0o600); err != nil {
		g.t.Fatal(err)
	}
	return all
}

// resident returns how much memory a process uses, in bytes.
func resident(t testing.TB, n *node) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var size int
	if _, err := fmt.Sscan(rest, &size); err != nil {
		t.Fatal(err)
	}
	return size << 10
}

// TestFleetPolicies checks that `fleet doctor` names a worker with another policy than its
// front, until the worker has the same policy.
func TestFleetPolicies(t *testing.T) {
	g := newGrid(t)
	f := g.front("front")
	same, err := os.ReadFile(g.path("policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(same), "in_flight: 300", "in_flight: 299", 1)
	if err := os.WriteFile(g.path("other.yaml"), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"work", "--name", "w1", "--places", g.path("w1"), "--policy", g.path("other.yaml"), "--front", "https://" + f.link}, g.cert("w1", "--worker")...)
	g.start("w1", args...)
	says := func(want string) {
		t.Helper()
		var out []byte
		if !testenv.Until(30*time.Second*testenv.Patience(t), func() bool {
			out, _ = g.command("fleet", "doctor", "--state", g.path("front")).CombinedOutput()
			return strings.Contains(string(out), want)
		}) {
			t.Fatalf("fleet doctor: %s\nwant %s\n%s", out, want, g.log("w1"))
		}
	}
	says("worker w1 has another policy")
	if err := os.WriteFile(g.path("other.yaml"), same, 0o600); err != nil {
		t.Fatal(err)
	}
	says("every worker is linked")
}
