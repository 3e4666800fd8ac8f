// Package policytest makes grants for the tests of packages that need one.
//
// Only a decision about a call makes a grant, so its functions parse a policy and
// decide a call.
package policytest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"belljar.dev/policies"
)

// Grant returns what the bundled policy grants a Bash call of tenant "test".
func Grant(t testing.TB) policies.Grant {
	t.Helper()
	return decide(t, policies.Default(), policies.Facts{Tenant: "test", Tool: "Bash", Command: "true"})
}

// GrantWith returns a grant like Grant, but with limits that are given as the inside of a
// YAML flow mapping: "memory: 64MiB, pids: 32, wall: 2s". Limits that are not named have
// their defaults. System directories and a writable workspace are visible.
func GrantWith(t testing.TB, limits string) policies.Grant {
	t.Helper()
	return GrantProfile(t, fmt.Sprintf("fs: {system: true, workspace: rw}\nlimits: {%s}", limits))
}

// GrantProfile returns a grant like Grant, but of a profile "test" with the YAML text of a
// whole profile: fs, net, limits, env, require.
func GrantProfile(t testing.TB, profile string) policies.Grant {
	t.Helper()
	indented := strings.ReplaceAll(strings.TrimSpace(profile), "\n", "\n    ")
	return GrantFor(t, "version: 1\ndefaults: {decision: allow}\nprofiles:\n  test:\n    "+indented+"\n",
		policies.Facts{Tenant: "test", Tool: "Bash", Command: "true"})
}

// GrantFor returns what a policy text grants a call. The test ends if the text has faults
// or the call is not allowed.
func GrantFor(t testing.TB, policy string, f policies.Facts) policies.Grant {
	t.Helper()
	p, err := policies.Parse(t.Name()+".yaml", []byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	return decide(t, p, f)
}

// Egress returns the egress of a profile with the YAML text of a whole net: "mode:
// proxy\nallow: [files.example]". The policy defines the secrets env, file and command,
// each kept in the place that its name says.
func Egress(t testing.TB, net string) *policies.Egress {
	t.Helper()
	indented := strings.ReplaceAll(strings.TrimSpace(net), "\n", "\n      ")
	return GrantFor(t, `version: 1
defaults: {decision: allow}
secrets:
  env: {env: SECRET}
  file: {file: /etc/secret}
  command: {command: [print-secret]}
profiles:
  test:
    net:
      `+indented+"\n", policies.Facts{Tenant: "test", Tool: "Bash", Command: "true"}).Egress()
}

// LimitNames returns the names of the fields of policies.Limits.
func LimitNames() (all []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[policies.Limits]()) {
		if !f.Anonymous {
			all = append(all, f.Name)
		}
	}
	return all
}

func decide(t testing.TB, p *policies.Policy, f policies.Facts) policies.Grant {
	t.Helper()
	d := p.Decide(f)
	if d.Verdict != policies.Allow {
		t.Fatalf("no grant for %+v:\n%s", f, d.Refusal("test"))
	}
	return d.Grant
}
