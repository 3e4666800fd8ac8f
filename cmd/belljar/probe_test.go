package main

import (
	"errors"
	"strings"
	"testing"

	"belljar.dev/policies"
	"belljar.dev/sandbox/escape"
)

// TestProbedCountsAndPrints checks that a probe whose outcome is not known counts as not
// held, also in the exit status.
func TestProbedCountsAndPrints(t *testing.T) {
	wall := escape.Probe{ID: "F01", Name: "read a file", Category: escape.Filesystem}
	need := escape.Probe{ID: "D03", Name: "use /dev/null", Category: escape.Devices, Works: true}
	tests := []struct {
		name  string
		probe escape.Probe
		o     escape.Outcome
		ok    bool
		want  string
	}{
		{"refused", wall, escape.Outcome{Detail: "EPERM"}, true, "1/1 held"},
		{"through", wall, escape.Outcome{Through: true, Detail: "secret"}, false, "\nTHROUGH F01 read a file\n  found: secret\n  so: a command can read or change files"},
		{"untried", wall, escape.Outcome{Err: errors.New("no prober")}, false, "\nUNTRIED F01 read a file\n  found: no prober\n  so: it is not known whether a command can read or change files"},
		{"works", need, escape.Outcome{Through: true}, true, "1/1 held"},
		{"a need that was not tried", need, escape.Outcome{Err: errors.New("no prober")}, false, "\nUNTRIED D03 use /dev/null\n  found: no prober\n  so: it is not known whether what programs need works in the box\n"},
		{"broken", need, escape.Outcome{Detail: "absent"}, false, "\nBROKEN D03 use /dev/null\n  found: absent\n  so: what programs need does not work in the box\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := probed{Profile: "p", Policy: "q"}
			r.add(tt.probe, tt.o)
			var out strings.Builder
			if err := r.print(&out, false); err != nil {
				t.Fatal(err)
			}
			if r.OK != tt.ok || !strings.Contains(out.String(), tt.want) {
				t.Errorf("ok is %v, want %v, and the report lacks %q:\n%s", r.OK, tt.ok, tt.want, &out)
			}
		})
	}
}

// TestProbedChoosesTenants checks that the boxes of the probes are those of two different
// tenants that the policy serves, and to which it allows a command in the profile.
func TestProbedChoosesTenants(t *testing.T) {
	const head = "version: 1\nprofiles: {p: {fs: {system: true}}, q: {fs: {system: true}}}\n"
	const allow = head + "defaults: {decision: allow, profile: p}\n"
	for _, tt := range []struct {
		name, policy, profile, want string
	}{
		{"none is named", allow, "", "probe probe-neighbour"},
		{"one is named", allow + "tenants: {ci: {}}\n", "", "ci local"},
		{"two are named", allow + "tenants: {ci: {}, web: {}}\n", "", "ci web"},
		{"the person is named", allow + "tenants: {local: {}, web: {}}\n", "", "local web"},
		{"only the person is named", allow + "tenants: {local: {}}\n", "", "it has no other tenant"},
		{"one may not have the profile", allow + "tenants: {a: {}, b: {may_request: [q]}}\n", "q", "b local"},
		{"too few may have the profile", allow + "tenants: {local: {}, b: {}, c: {may_request: [q]}}\n", "q", "for tenant b it says deny by rule "},
		{"no such profile", allow, "r", `has no profile "r"; it has p, q`},
		{"all is refused", head + "defaults: {decision: deny, profile: p}\ntenants: {a: {}, b: {}}\n", "", "It also refuses 2 more."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := policies.Parse("p.yaml", []byte(tt.policy))
			if err != nil {
				t.Fatal(err)
			}
			var r probed
			grants, err := r.choose(p, tt.profile)
			got := strings.Join(r.Tenants, " ")
			if err != nil {
				got = err.Error()
			} else if grants[0].IsZero() || grants[1].IsZero() {
				t.Error("a tenant has no grant")
			}
			if got != tt.want && (err == nil || !strings.Contains(got, tt.want)) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
