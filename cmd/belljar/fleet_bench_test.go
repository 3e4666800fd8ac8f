package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// BenchmarkFleet is a call through a front and a worker against the same call of a server
// without a fleet, in turns, with client and servers on one machine: how much time the way
// adds, and how many of the calls of a direct server it can serve.
func BenchmarkFleet(b *testing.B) {
	const turns = 9
	g := newGrid(b)
	refused := strings.Replace(gridPolicy, "tenants:", "rules: [{id: no-web, match: {tool: \"Web*\"}, decision: deny, reason: There is no web.}]\ntenants:", 1)
	refused = strings.Replace(refused, "burst: 100000}", "calls: 1000000/s, burst: 1000000}", 1)
	for name, text := range map[string]string{"policy.yaml": refused, "direct.yaml": strings.Replace(refused, "places: [site], ", "", 1)} {
		if err := os.WriteFile(g.path(name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	f := g.front("front", "--workers", "w1", "--connections", "4096")
	g.worker("w1", f)
	if err := os.Mkdir(g.path("ws"), 0o700); err != nil {
		b.Fatal(err)
	}
	direct := g.start("direct", "serve", "--http", "127.0.0.1:0", "--policy", g.path("direct.yaml"), "--workspace", g.path("ws"), "--state", g.path("direct"), "--connections", "4096")
	ready := regexp.MustCompile(`clients can connect" url=(\S+)`)
	if !testenv.Until(20*time.Second, func() bool { return ready.MatchString(g.log("direct")) }) {
		b.Fatal(g.log("direct"))
	}
	url := ready.FindStringSubmatch(g.log("direct"))[1]
	for _, window := range []int{1, 16} {
		name := map[int]string{1: "inflight=1", 16: "inflight=16"}[window]
		b.Run(name, func(b *testing.B) {
			n := max(b.N, window)
			rivals := []*testenv.Rival{overHTTP(b, f.cmd.Process.Pid, f.url+"/mcp", "one"), overHTTP(b, direct.cmd.Process.Pid, url, "one")}
			var took [2][]float64 // of all calls, in µs
			var rate [2][]float64 // calls a second, of each slice
			for turn := range turns + 1 {
				for i, r := range rivals {
					began := time.Now()
					calls := r.Calls(b, n, window)
					if turn > 0 { // the first one warms
						took[i] = append(took[i], calls...)
						rate[i] = append(rate[i], float64(n)/time.Since(began).Seconds())
					}
				}
			}
			b.ReportMetric(0, "ns/op")
			at := func(i int, part float64) float64 {
				slices.Sort(took[i])
				return took[i][int(float64(len(took[i])-1)*part)]
			}
			if window == 1 {
				b.ReportMetric(at(0, 0.5)-at(1, 0.5), "added-p50-µs")
				b.ReportMetric(200, "added-p50-µs-limit")
				b.ReportMetric(at(0, 0.99)-at(1, 0.99), "added-p99-µs")
				b.ReportMetric(1000, "added-p99-µs-limit")
				return
			}
			b.ReportMetric(pairs(rate[0], rate[1]), "of-direct")
			b.ReportMetric(0.25, "of-direct-limit")
			b.ReportMetric(testenv.Median(rate[0]), "calls/s")
		})
	}
}
