package policies_test

import (
	"fmt"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
)

// The people of the console are those that the policy names, each with a role and a place for
// the digest of a token.
func TestPeople(t *testing.T) {
	p, err := policies.Parse("policy.yaml", []byte(head+`tenants: {a: {}, b: {}}
console:
  people:
    bob: {role: viewer, tenants: [b], token: "${env:BOB_SHA256}"}
    ann: {role: operator, token: "${file:/etc/belljar/ann.sha256}"}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v", policies.People(p)), "[{Name:ann Role:operator Tenants:[] Token:{Env: File:/etc/belljar/ann.sha256 Command:[]}} {Name:bob Role:viewer Tenants:[b] Token:{Env:BOB_SHA256 File: Command:[]}}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var many strings.Builder
	for i := range 65 {
		fmt.Fprintf(&many, "    p%d: {role: viewer, token: \"${env:X}\"}\n", i)
	}
	golden.Equal(t, "console.golden", faults(t, head+`console:
  people:
    Bad Name: {role: viewer, token: "${env:X}"}
    ann: {role: admin, token: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae}
    bob: {}
    eve: {role: viewer, token: "${env:X}", password: x}
    kim: {role: viewer, tenants: [], token: "${env:X}"}
    lea: {role: viewer, tenants: [nosuch], token: "${env:X}"}
`).Error()+"\n"+faults(t, head+"console: {people: {}}\n").Error()+"\n"+faults(t, head+"console:\n  people:\n"+many.String()).Error()+"\n")
}
