package gateway

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/mcptest/upstreams"
	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
	"belljar.dev/mcp/upstream/peer"
)

// BenchmarkList measures a list of the tools of 20 servers with 20 tools each. The servers
// are not involved in it. The limit is 2 ms of CPU, for client and server together.
func BenchmarkList(b *testing.B) {
	servers := make(map[string]upstreams.Server)
	for i := range 20 {
		servers[fmt.Sprintf("server%d", i)] = upstreams.Server{Tools: []upstreams.Tool{{Name: "tool", Description: "Does what tools do", Times: 20, Padding: 200}}}
	}
	g := gate(b, "", "tenants: {local: {limit: {calls: 1000000/s, burst: 1000000}}}", servers)
	if !testenv.Until(15*time.Second, func() bool { return strings.Count(g.names(), "mcp_server") == 400 }) {
		_, notes := g.list()
		b.Fatalf("only %d tools: %q", strings.Count(g.names(), "mcp_server"), notes)
	}
	b.ResetTimer()
	for b.Loop() {
		g.ask("tools/list", "{}")
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms")
	b.ReportMetric(2, "ms-limit")
}

// BenchmarkStart measures the start of a server and its box, until the answer to its first
// call, against the start of the same program without a box. The limit is 1.2 times as
// long, plus 5 ms.
func BenchmarkStart(b *testing.B) {
	s := upstreams.Server{Tools: []upstreams.Tool{upstreams.Echo}}
	g := gate(b, "", "tenants: {local: {limit: {calls: 1000000/s, burst: 1000000}}}", map[string]upstreams.Server{"s": s})
	if g.names() != "mcp_s_echo" {
		b.Fatal(g.names())
	}
	// A digest is remembered only for a file that has not changed for two seconds, and this
	// binary is newer: each start would read the whole file.
	g.calls.programs.settled = 1
	argv := s.Command(b)
	var of, to time.Duration
	for b.Loop() {
		if _, err := g.Stop("s"); err != nil {
			b.Fatal(err)
		}
		if !testenv.Until(20*time.Second, func() bool { return len(g.boxes.Boxes()) == 0 }) {
			b.Fatal("its box is still there")
		}
		begin := time.Now()
		g.wants("mcp_s_echo", `{"x":1}`, false, `{"x":1}`)
		of += time.Since(begin)
		begin = time.Now()
		c, err := peer.Open(b.Context(), bare(b, argv), peer.Config{Era: peer.Legacy})
		if err != nil {
			b.Fatal(err)
		}
		for method, params := range map[string]string{"tools/list": "{}", "tools/call": `{"name":"echo","arguments":{"x":1}}`} {
			if _, err := c.Call(b.Context(), method, json.RawMessage(params), peer.CallOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		to += time.Since(begin)
		c.Close()
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.N) / 1000 }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(of), "ms")
	b.ReportMetric(ms(to), "bare-ms")
	b.ReportMetric(1.2*ms(to)+5, "ms-limit")
}

// bare starts a server without a box.
func bare(b *testing.B, argv []string) peer.Pipes {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), argv[0], argv[1:]...)
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
	return peer.Pipes{In: in, Out: out, Stop: func() { _ = cmd.Wait() }}
}

// BenchmarkHop measures a call of a server's tool without the audit log: its allocations
// and its CPU time in this process, including the client of the test.
func BenchmarkHop(b *testing.B) {
	testenv.Need(b, testenv.UserNamespaces)
	g := &gated{t: b, workspace: b.TempDir(), files: b.TempDir(), limits: mcp.Limits{Rate: 1e6, Burst: 1e6}}
	g.use("", "tenants: {local: {limit: {calls: 1000000/s, burst: 1000000}}}")
	g.open(g.write(map[string]upstreams.Server{"s": {Tools: []upstreams.Tool{upstreams.Echo}}}))
	if g.names() != "mcp_s_echo" {
		b.Fatal(g.names())
	}
	b.ReportAllocs()
	for b.Loop() {
		if text, failed := g.call("mcp_s_echo", `{"x":1}`); failed {
			b.Fatal(text)
		}
	}
}
