package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// hopPolicy lets the box of a server see the program that is built, which has a server.
const hopPolicy = `version: 1
defaults: {decision: allow, profile: p}
profiles: {p: {fs: {system: true}}}
tenants: {a: {limit: {calls: 1000000/s, burst: 1000000}}}
upstreams: {from: servers.json, wait: 20s, defaults: {profile: {fs: {read: ["%s:/opt/belljar"]}}}}
`

// adding calls the tool add of a server over stdio, by the name that it has there.
func adding(s *process, tool string) *testenv.Rival {
	return &testenv.Rival{PID: s.cmd.Process.Pid, Call: func(id int) error {
		if _, err := fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"a":1,"b":2}}}`+"\n", id+10, tool); err != nil {
			return err
		}
		for {
			answer, err := s.out.ReadString('\n')
			switch {
			case err != nil:
				return err
			case strings.Contains(answer, `"text":"3"`):
				return nil
			case strings.Contains(answer, `"method"`): // a notification
			default:
				return fmt.Errorf("%s", answer)
			}
		}
	}}
}

// perSecond is how many calls a second a server answers with 32 in flight.
func perSecond(b *testing.B, s *process, tool string, n int) float64 {
	b.Helper()
	free := make(chan struct{}, 32)
	begin := time.Now()
	go func() {
		for id := range n {
			free <- struct{}{}
			fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"a":1,"b":2}}}`+"\n", id+10, tool)
		}
	}()
	for range n {
		answer, err := s.out.ReadString('\n')
		if err != nil || !strings.Contains(answer, `"text":"3"`) {
			b.Fatalf("%s %v", answer, err)
		}
		<-free
	}
	return float64(n) / time.Since(begin).Seconds()
}

// BenchmarkUpstream is a call of another server's tool through belljar, with its policy, audit
// log and the server in a box, against a call of the same server without belljar. Both are
// over stdio, one call after the other; the rivals take turns, and the ratio is the median of
// those of slices next to each other. The limits are 80 µs more, and 1.6 times as much; this
// server answers in some 10 µs, so the second one says little. With 32 calls in flight, half
// as many a second as directly are wanted.
func BenchmarkUpstream(b *testing.B) {
	const turns = 15
	testenv.Need(b, testenv.UserNamespaces)
	p := newPlace(b)
	p.program = built(b)
	p.file(b, "servers.json", `{"mcpServers": {"demo": {"command": "/opt/belljar/belljar", "args": ["demo-server"]}}}`)
	policy := p.file(b, "policy.yaml", fmt.Sprintf(hopPolicy, filepath.Dir(p.program)))
	through := serve(b, p.program, "belljar", "serve", "--workspace", p.ws, "--state", p.state, "--policy", policy, "--tenant", "a")
	direct := serve(b, p.program, "belljar", "demo-server")
	for _, s := range []*process{through, direct} {
		s.send(b, hello)
		s.receive(b)
		s.send(b, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	of, to := adding(through, "mcp_demo_add"), adding(direct, "add")
	for _, r := range []*testenv.Rival{of, to} {
		r.Slice(b, max(b.N, 100), 1) // warm
		r.CPU, r.Wall = nil, nil
	}
	b.ResetTimer()
	for range turns {
		of.Slice(b, b.N, 1)
		to.Slice(b, b.N, 1)
	}
	var share []float64
	for range 5 {
		share = append(share, perSecond(b, through, "mcp_demo_add", 10*b.N)/perSecond(b, direct, "add", 10*b.N))
	}
	b.ReportMetric(testenv.Median(share), "rate-x")
	b.ReportMetric(0.5, "rate-x-limit")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(testenv.Median(of.Wall), "p50-µs")
	b.ReportMetric(testenv.Median(of.Wall)-testenv.Median(to.Wall), "more-µs")
	b.ReportMetric(80, "more-µs-limit")
	b.ReportMetric(pairs(of.Wall, to.Wall), "x")
	b.ReportMetric(1.6, "x-limit")
	b.ReportMetric(testenv.Median(of.CPU), "cpu-µs")
}
