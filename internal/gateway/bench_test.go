package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/mcptest/upstreams"
	"belljar.dev/internal/testenv"
)

// BenchmarkList is a list of 20 servers with 20 tools each, which the servers themselves do not
// see. The limit is 2 ms of CPU, of client and server together here.
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
