package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"belljar.dev/internal/mcptest/upstreams"
	"belljar.dev/internal/testenv"
)

// Clients do not cache a list that lacks a server which is still starting. They cache a
// list with all servers, for as long as each server allows.
func TestListsWithoutAServerAreNotKept(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces)
	prompts := func(ttl string) upstreams.Server {
		return upstreams.Server{Results: map[string]json.RawMessage{
			"initialize":   json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"s","version":"1"}}`),
			"prompts/list": json.RawMessage(`{"prompts":[{"name":"p"}],"ttlMs":` + ttl + `}`),
		}}
	}
	for _, tt := range []struct {
		want string
		s    upstreams.Server
	}{
		{`"ttlMs":300000`, upstreams.Server{}},
		{`"ttlMs":0`, upstreams.Server{Rules: []upstreams.Rule{{On: "server/discover"}, {On: "initialize"}}}}, // the server answers neither
		{`"ttlMs":7000`, prompts("7000")},
		{`"ttlMs":0`, prompts("0")},
	} {
		want, s := tt.want, tt.s
		g := &gated{t: t, workspace: t.TempDir(), files: t.TempDir()}
		around := gatedPolicy
		if len(s.Rules) > 0 {
			around = strings.Replace(around, "wait: 20s", "wait: 10ms", 1)
		}
		g.useText(around, "", "")
		g.open(g.write(map[string]upstreams.Server{"s": s}))
		for _, list := range []string{"tools/list", "prompts/list", "resources/templates/list"} {
			m := g.ask(list, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}`)
			if !strings.Contains(string(m.Result), want) {
				t.Errorf("%s: got %s %+v, want %s in it", list, m.Result, m.Error, want)
			}
		}
	}
}
