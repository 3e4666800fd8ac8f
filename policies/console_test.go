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

// providerHead is a policy whose console has a provider with more.
const providerHead = head + `tenants: {a: {}}
console:
  provider:
    url: https://login.example/realm
    client: belljar
    roles:
      - {when: '"ops" in claims.groups', role: operator}
      - {when: 'claims.email.endsWith("@a.example") && claims.email_verified', role: viewer, tenants: [a]}
`

// The first condition that holds says what a person of the provider may do. One that cannot be worked
// out lets nobody in, also not by a later one. The name has the issuer and the subject.
func TestProvider(t *testing.T) {
	parse := func(more string) *policies.Provider {
		p, err := policies.Parse("policy.yaml", []byte(providerHead+more))
		if err != nil {
			t.Fatal(err)
		}
		return policies.ProviderOf(p)
	}
	claims := func(pairs ...any) map[string]any {
		all := map[string]any{"sub": "s-1", "groups": []any{}, "email": "x@b.example", "email_verified": true}
		for i := 0; i < len(pairs); i += 2 {
			if name := fmt.Sprint(pairs[i]); pairs[i+1] == nil {
				delete(all, name)
			} else {
				all[name] = pairs[i+1]
			}
		}
		return all
	}
	plain, named := parse(""), parse("    name: email\n    secret: \"${env:X}\"\n    scopes: [openid, email]\n")
	if got, want := fmt.Sprintf("%v %v %q %v %v", plain.Scopes, named.Scopes, plain.Secret.Env, named.Secret.Env, plain.Algorithms), `[openid] [openid email] "" X [RS256 PS256 ES256 EdDSA]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var refused strings.Builder
	for _, tt := range []struct {
		p      *policies.Provider
		claims map[string]any
		want   string
	}{
		{plain, claims("groups", []any{"ops"}), "https://login.example/realm|s-1 operator []"},
		{named, claims("groups", []any{"ops"}), "x@b.example (https://login.example/realm|s-1) operator []"},
		{plain, claims("email", "x@a.example"), "https://login.example/realm|s-1 viewer [a]"},
		{plain, claims("email", "x@a.example", "email_verified", false), "no condition of the provider holds for it"},
		{plain, claims(), "no condition of the provider holds for it"},
		{plain, claims("groups", nil, "email", "x@a.example"), `the condition "\"ops\" in claims.groups" cannot be worked out: no such key: groups`},
		{plain, claims("sub", nil), "its claim sub is missing, or not a short text"},
		{plain, claims("sub", 7), "its claim sub is missing, or not a short text"},
		{named, claims("groups", []any{"ops"}, "email", "x\u202e@b.example"), "its claim email is missing, or not a short text"},
		{named, claims("groups", []any{"ops"}, "email", strings.Repeat("x", 201)), "its claim email is missing, or not a short text"},
	} {
		who, why := tt.p.Person(tt.claims)
		got := why
		if why == "" {
			got = fmt.Sprint(who.Name, " ", who.Role, " ", who.Tenants)
		} else if who.Role != "" || who.Name != "" {
			t.Errorf("%v: %+v, although %s", tt.claims, who, why)
		}
		if got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.claims, got, tt.want)
		}
		if why != "" {
			fmt.Fprintln(&refused, why)
		}
	}
	golden.Equal(t, "provider.golden", refused.String()+faults(t, head+`console:
  provider: {url: "http://login.example", scopes: ["a b"], secret: hunter2, roles: []}
`).Error()+"\n"+faults(t, head+`console:
  provider: {client: "a\u202eb", roles: [{role: viewer}, {when: "claims.", role: king}, {when: "true", tenants: [b]}]}
`).Error()+"\n"+faults(t, head+"console:\n  provider: {}\n").Error()+"\n")
}
