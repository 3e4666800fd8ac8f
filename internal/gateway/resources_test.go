package gateway

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/mcptest/upstreams"
	"belljar.dev/policies"
)

// A list of resources reaches no server that the session must not use.
func TestListedResources(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	keys := fmt.Sprintf(`servers: {s: {profile: {fs: {read: ["%s:/opt/test"], workspace: rw}}}}`, filepath.Dir(self))
	g := gate(t, keys, "", map[string]upstreams.Server{"s": {Results: map[string]json.RawMessage{
		"initialize":               json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"s","version":"1"}}`),
		"resources/list":           json.RawMessage(`{"resources":[{"uri":"note://one","name":"one"}]}`),
		"resources/templates/list": json.RawMessage(`{"resourceTemplates":[]}`),
	}}})
	listed := func() bool {
		t.Helper()
		m := g.ask("resources/list", "{}")
		if m.Error != nil {
			t.Fatalf("resources/list: %+v", m.Error)
		}
		return strings.Contains(string(m.Result), "mcp+s://")
	}
	if !listed() {
		t.Fatalf("the resource is not listed\n%s", &g.logged)
	}
	g.session.Load().Narrow(policies.ReadOnly("plan"))
	if listed() {
		t.Error("a session that must not write uses a server that can")
	}
	g.session.Load().Narrow(nil)
	if !listed() {
		t.Error("the resource is not listed any more")
	}
	g.use(keys, "rules: [{id: no, match: {tool: mcp_s_resources}, decision: deny}]")
	if listed() {
		t.Error("resources are listed that the policy denies")
	}
}

// A server that does not answer with its resources delays the resources of other servers no
// longer than the timeout of one call.
func TestResourcesThatDoNotCome(t *testing.T) {
	results := map[string]json.RawMessage{
		"initialize":     json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{"resources":{}},"serverInfo":{"name":"s","version":"1"}}`),
		"resources/list": json.RawMessage(`{"resources":[{"uri":"note://one","name":"one"}]}`),
	}
	g := gate(t, "servers: {hangs: {timeout: {call: 200ms}}}", "", map[string]upstreams.Server{
		"hangs": {Results: results, Rules: upstreams.On("resources/list")}, "ok": {Results: results},
	})
	began := time.Now()
	m := g.ask("resources/list", "{}")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the list took %v", took)
	}
	if text := string(m.Result); !strings.Contains(text, "mcp+ok://") || strings.Contains(text, "mcp+hangs://") {
		t.Errorf("got %s\n%s", text, &g.logged)
	}
}
