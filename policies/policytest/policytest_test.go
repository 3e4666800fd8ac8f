package policytest_test

import (
	"testing"
	"time"

	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
)

func TestGrants(t *testing.T) {
	g := policytest.Grant(t)
	if g.IsZero() || g.Tenant() != "test" || g.Profile() != "offline" || g.Workspace() != policies.AccessWrite || !g.System() {
		t.Errorf("Grant: got %+v", g)
	}
	with := policytest.GrantWith(t, "memory: 64MiB, wall: 2s").Limits()
	if with.Memory != 64<<20 || with.Wall != 2*time.Second || with.Pids != policies.DefaultPids {
		t.Errorf("GrantWith: got %+v", with)
	}
	profile := policytest.GrantProfile(t, "fs:\n  workspace: ro\nenv: {A: b}\n")
	if profile.Workspace() != policies.AccessRead || profile.Env()["A"] != "b" || profile.System() {
		t.Errorf("GrantProfile: got %+v", profile)
	}
	own := policytest.GrantFor(t, "version: 1\ndefaults: {decision: allow}\nprofiles: {p: {}}\n", policies.Facts{Tenant: "b", Tool: "Any"})
	if own.Tenant() != "b" || own.Profile() != "p" {
		t.Errorf("GrantFor: got %+v", own)
	}
}
