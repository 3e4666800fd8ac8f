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

// The first condition that holds says what a person of the provider may do. If a condition
// cannot be evaluated, the person is refused, even if a later condition holds. The name
// contains the issuer and the subject.
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
		{named, claims("groups", []any{"ops"}), "https://login.example/realm|s-1 (x@b.example) operator []"},
		{plain, claims("email", "x@a.example"), "https://login.example/realm|s-1 viewer [a]"},
		{plain, claims("email", "x@a.example", "email_verified", false), "no condition of the provider holds for it"},
		{plain, claims(), "no condition of the provider holds for it"},
		{plain, claims("groups", nil, "email", "x@a.example"), `the condition "\"ops\" in claims.groups" cannot be evaluated: no such key: groups`},
		{plain, claims("sub", nil), "its claim sub is missing, or is not a short text of ASCII without parentheses"},
		{plain, claims("sub", 7), "its claim sub is missing, or is not a short text of ASCII without parentheses"},
		{plain, claims("sub", strings.Repeat("s", 200)), "the issuer and its claim sub have 228 bytes, and the logs keep 200 of a name"},
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

// The name of a person begins with the part that is certain, and no log cuts it. So the
// name that a person has chosen at the provider can neither make that person look like
// another one nor hide the person.
func TestNameOfAPersonOfAProvider(t *testing.T) {
	p, err := policies.Parse("policy.yaml", []byte(head+`console:
  provider: {url: "https://login.example/realm", client: belljar, name: name, roles: [{when: "true", role: viewer}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	const sure, logged = "https://login.example/realm|s-1", 200
	name := func(sub string, name any) (string, string) {
		who, why := policies.ProviderOf(p).Person(map[string]any{"sub": sub, "name": name})
		return who.Name, why
	}
	for _, said := range []string{"Ann Smith", "Änn (2)", "ann@example.com", strings.Repeat("x", 60), "安 安"} {
		want := sure + " (" + said + ")"
		if strings.Contains(said, "(") {
			want = sure
		}
		if got, why := name("s-1", said); got != want || why != "" {
			t.Errorf("%q: got %q %s, want %q", said, got, why, want)
		}
	}
	for _, said := range []any{
		nil, "", 7, "bob (https://login.example/realm|s-2)", "a|b", "a)", "a\uff09", "a\uff5cb", "a  b", " a", "a ", "a\u3000b", "a\u00a0b", "a\u2800b", "x\u202ey",
		strings.Repeat("x", 61), strings.Repeat("x", 200),
	} {
		if got, why := name("s-1", said); got != sure || why != "" {
			t.Errorf("%q: got %q %s, want no more than what is sure", said, got, why)
		}
	}
	most := strings.Repeat("s", logged-len("https://login.example/realm|"))
	for _, said := range []string{"x", strings.Repeat("安", 60)} {
		if got, why := name(most, said); len(got) != logged || why != "" {
			t.Errorf("a long subject with %q: got %q %s", said, got, why)
		}
		if got, why := name(most[:100], said); len(got) > logged || !strings.HasPrefix(got, "https://login.example/realm|s") || why != "" {
			t.Errorf("half of it with %q: got %q %s", said, got, why)
		}
	}
	for _, sub := range []string{most + "s", "", "s-1 (bob)", "s  1", " s-1", "s\u3000", "s-ä", "s\n"} {
		if got, why := name(sub, "x"); got != "" || why == "" {
			t.Errorf("the subject %q: got %q", sub, got)
		}
	}
}
