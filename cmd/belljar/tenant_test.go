package main

import (
	"encoding/json"
	"strings"
	"testing"

	"belljar.dev/internal/control"
)

// The operator sees how much of their quotas the tenants of a running server use.
func TestTenants(t *testing.T) {
	o := operate(t)
	for _, want := range []string{"SESSIONS", "0 of 64", "0 of 8"} {
		o.says(want, "tenant", "list")
	}
	var all []control.Tenant
	if err := json.Unmarshal([]byte(o.says("", "tenant", "list", "--json")), &all); err != nil || len(all) != 2 || all[0].Name != "a" || all[1].Name != "b" {
		t.Errorf("got %+v, %v; want the tenants a and b", all, err)
	}
	shown := o.says("tenant b of server", "tenant", "show", "b")
	for _, want := range []string{"/mcp ", "sessions ", "egress ", "16384.0 MiB an hour", "calls ", "100/s"} {
		if !strings.Contains(shown, want) {
			t.Errorf("tenant show lacks %q: %s", want, shown)
		}
	}
	o.says("! no server of yours has a tenant \"c\"", "tenant", "show", "c")
	o.completes("a", []string{"tenant", "show"}, "a")
}
