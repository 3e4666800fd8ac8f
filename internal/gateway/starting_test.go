package gateway

import (
	"strings"
	"testing"

	"belljar.dev/internal/mcptest/upstreams"
	"belljar.dev/internal/testenv"
)

// A list in which a server is not there yet is not kept by clients; one with all servers is.
func TestListsWithoutAServerAreNotKept(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces)
	for want, s := range map[string]upstreams.Server{
		`"ttlMs":300000`: {},
		`"ttlMs":0`:      {Rules: []upstreams.Rule{{On: "server/discover"}, {On: "initialize"}}}, // which it does not answer
	} {
		g := &gated{t: t, workspace: t.TempDir(), files: t.TempDir()}
		around := gatedPolicy
		if len(s.Rules) > 0 {
			around = strings.Replace(around, "wait: 20s", "wait: 10ms", 1)
		}
		g.useText(around, "", "")
		g.open(g.write(map[string]upstreams.Server{"s": s}))
		m := g.ask("tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}`)
		if !strings.Contains(string(m.Result), want) {
			t.Errorf("got %s %+v, want %s in it", m.Result, m.Error, want)
		}
	}
}
