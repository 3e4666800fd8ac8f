package gateway

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/mcptest/upstreams"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
)

// A server whose entry has not changed is still watched for changes after a reload.
func TestChangesAfterReload(t *testing.T) {
	g := gate(t, "servers: {s: {pin: off}}", "", map[string]upstreams.Server{"s": {
		Tools:   []upstreams.Tool{upstreams.Echo},
		Changed: []upstreams.Tool{upstreams.Echo, {Name: "new"}},
		Rules:   []upstreams.Rule{{On: "tools/call", Do: []upstreams.Act{upstreams.Change(), upstreams.Notify("notifications/tools/list_changed", ""), upstreams.Answer()}}},
	}})
	if got := g.names(); got != "mcp_s_echo" {
		t.Fatalf("got the tools %q\n%s", got, &g.logged)
	}
	if err := g.Reload(); err != nil {
		t.Fatal(err)
	}
	g.wants("mcp_s_echo", `{}`, false)
	if !testenv.Until(20*time.Second, func() bool { return g.names() == "mcp_s_echo mcp_s_new" }) {
		t.Errorf("got the tools %q", g.names())
	}
}

// No state is kept of servers that the files no longer contain, or whose entry has changed.
func TestStatesOfFormerEntries(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces)
	g := &gated{t: t, workspace: t.TempDir(), files: t.TempDir()}
	write := func(name, command string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(g.workspace, "mcp.json"), fmt.Appendf(nil, `{"mcpServers":{%q:{"command":%q}}}`, name, command), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	states := func() string {
		t.Helper()
		g.calls.offers.tell.Lock()
		defer g.calls.offers.tell.Unlock()
		return strings.Join(slices.Sorted(maps.Keys(g.calls.offers.tenants[policies.LocalTenant].states)), " ")
	}
	write("one", "/bin/true")
	g.use(`from: ["${workspaceFolder}/mcp.json"]`, "")
	g.open()
	g.list()
	if got := states(); got != "one" {
		t.Fatalf("got the states of %q\n%s", got, &g.logged)
	}
	for _, command := range []string{"/bin/false", ""} { // a changed entry, and then no entry
		if command == "" {
			write("two", "/bin/true")
		} else {
			write("one", command)
		}
		if err := g.Reload(); err != nil {
			t.Fatal(err)
		}
		if got := states(); got != "" {
			t.Errorf("got the states of %q after a reload", got)
		}
		g.list()
	}
}
