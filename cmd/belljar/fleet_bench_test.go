package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// proxies and echoesTLS are the floor of a call through a front and a worker. proxies is a
// reverse proxy of net/http to the URL in its argument. echoesTLS is a server that returns
// each body over HTTP/2 and TLS.
func proxies() {
	s := httptest.NewUnstartedServer(nil) // only for the client, which trusts the certificate of all such servers
	s.EnableHTTP2 = true
	s.StartTLS()
	to, err := url.Parse(os.Args[1])
	if err != nil {
		panic(err)
	}
	proxy := &httputil.ReverseProxy{Transport: s.Client().Transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	serveFloor(proxy.ServeHTTP)
}

func echoesTLS() {
	s := httptest.NewUnstartedServer(http.HandlerFunc(echoed))
	s.EnableHTTP2 = true
	s.StartTLS()
	tellURL(s.URL)
	select {}
}

// BenchmarkFleet measures a call through a front and a worker against the same call to a
// server without a fleet, in turns, with client and servers on one machine: how much time
// the way through the fleet adds, and what share of a direct server's calls it can serve.
// It measures the same for the floor.
func BenchmarkFleet(b *testing.B) {
	const turns = 9
	const fleet, direct, proxied, echo = 0, 1, 2, 3 // indexes of the rivals
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
	straight := g.start("direct", "serve", "--http", "127.0.0.1:0", "--policy", g.path("direct.yaml"), "--workspace", g.path("ws"), "--state", g.path("direct"), "--connections", "4096")
	ready := regexp.MustCompile(`clients can connect" url=(\S+)`)
	if !testenv.Until(20*time.Second, func() bool { return ready.MatchString(g.log("direct")) }) {
		b.Fatal(g.log("direct"))
	}
	directURL := ready.FindStringSubmatch(g.log("direct"))[1]
	echoing, _ := floor(b, "echoes")
	_, behind := floor(b, "echoesTLS")
	proxying, _ := floor(b, "proxies", behind)
	for _, window := range []int{1, 16} {
		name := map[int]string{1: "inflight=1", 16: "inflight=16"}[window]
		b.Run(name, func(b *testing.B) {
			n := max(b.N, window)
			rivals := []*testenv.Rival{overHTTP(b, f.cmd.Process.Pid, f.url+"/mcp", "one"), overHTTP(b, straight.cmd.Process.Pid, directURL, "one"), proxying, echoing}
			var took [4][]float64 // times of all calls, in µs
			var rate [4][]float64 // calls per second in each slice
			for turn := range turns + 1 {
				for i, r := range rivals {
					began := time.Now()
					calls := r.Calls(b, n, window)
					if turn > 0 { // the first turn is for warming up
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
				b.ReportMetric(at(fleet, 0.5)-at(direct, 0.5), "added-p50-µs")
				b.ReportMetric(200, "added-p50-µs-limit")
				b.ReportMetric(at(fleet, 0.99)-at(direct, 0.99), "added-p99-µs")
				b.ReportMetric(1000, "added-p99-µs-limit")
				b.ReportMetric(at(proxied, 0.5)-at(echo, 0.5), "proxy-added-p50-µs")
				b.ReportMetric(at(proxied, 0.99)-at(echo, 0.99), "proxy-added-p99-µs")
				b.ReportMetric((at(fleet, 0.5)-at(direct, 0.5))/(at(proxied, 0.5)-at(echo, 0.5)), "of-proxy-x")
				return
			}
			b.ReportMetric(pairs(rate[fleet], rate[direct]), "of-direct")
			b.ReportMetric(0.25, "of-direct-limit")
			b.ReportMetric(pairs(rate[proxied], rate[echo]), "proxy-of-direct")
			b.ReportMetric(testenv.Median(rate[fleet]), "calls/s")
		})
	}
}

// BenchmarkFleetIdle measures the cost of idle clients and idle places: streams that wait,
// each with a connection of its own to a front, and places of a worker that nobody uses. It
// also measures the first call in each place, which creates the place.
func BenchmarkFleetIdle(b *testing.B) {
	const streams, perTenant, places = 10_000, 2000, 1000
	g := newGrid(b)
	all := g.tenants(places, fmt.Sprintf(", streams: %d, in_flight: 300, sessions: 300", perTenant))
	f := g.front("front", "--workers", "w1,w2")
	workers := []*node{g.worker("w1", f), g.worker("w2", f)}
	empty := resident(b, workers[0]) + resident(b, workers[1])
	var first []time.Duration
	for _, p := range all {
		began := time.Now()
		if a := askTool(b.Context(), f.url+p.path, p.tenant, "1", "ListBgTasks", map[string]any{}); a.err != nil || a.failed || a.status != http.StatusOK {
			b.Fatalf("%+v: %+v", p, a)
		}
		first = append(first, time.Since(began))
	}
	full := resident(b, workers[0]) + resident(b, workers[1])
	before := resident(b, f)
	room := make(chan struct{}, 32)
	var opening sync.WaitGroup
	for i := range streams {
		p := all[i%(streams/perTenant)*51] // each stream belongs to one of several tenants
		room <- struct{}{}
		opening.Go(func() {
			defer func() { <-room }()
			if err := listen(b, f.url+p.path, p.tenant); err != nil {
				b.Error(err)
			}
		})
	}
	opening.Wait()
	b.ReportMetric(0, "ns/op")
	ms := func(part float64) float64 { return float64(quantile(first, part).Microseconds()) / 1e3 }
	b.ReportMetric(ms(0.5), "new-place-p50-ms")
	b.ReportMetric(ms(0.99), "new-place-p99-ms")
	b.ReportMetric(25, "new-place-p99-ms-limit")
	b.ReportMetric(float64(resident(b, f))/1e6, "MB-of-10000-streams")
	b.ReportMetric(400, "MB-of-10000-streams-limit")
	b.ReportMetric(float64(resident(b, f)-before)/streams/1e3, "KB/stream")
	b.ReportMetric(float64(full-empty/2)/1e6, "MB-of-1000-places") // as if one worker had all places
	b.ReportMetric(300, "MB-of-1000-places-limit")
	b.ReportMetric(float64(full-empty)/places/1e3, "KB/place")
}

// listen opens a stream over a connection of its own, which ends with the benchmark.
func listen(b *testing.B, address, token string) error {
	const body = `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	to := strings.TrimPrefix(address, "http://")
	host, path, _ := strings.Cut(to, "/")
	c, err := net.Dial("tcp", host)
	if err != nil {
		return err
	}
	b.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	_, err = fmt.Fprintf(c, "POST /%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\nContent-Length: %d\r\n\r\n%s", path, host, token, len(body), body)
	if err != nil {
		return err
	}
	var text [1024]byte
	n, err := c.Read(text[:])
	if err == nil && !strings.HasPrefix(string(text[:n]), "HTTP/1.1 200 ") {
		err = fmt.Errorf("%s", text[:n])
	}
	return err
}
