package policies_test

import (
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
)

// ofTenants is a policy with the tenants a and b.
const ofTenants = `version: 1
defaults: {decision: allow, profile: offline}
profiles: {offline: {}, dev: {}, wide: {}}
tenants: {a: {may_request: [dev, wide]}, b: {profile: dev}}
`

func TestAuthFaults(t *testing.T) {
	issuer := func(text string) string {
		return ofTenants + "auth: {issuers: [{url: \"https://i.example\", tenant: a, " + text + "}]}\n"
	}
	var all []string
	for _, tt := range []struct{ name, text, want string }{
		{"no tenants", head + "auth: {issuers: []}\n", "auth needs tenants"},
		{"no url", ofTenants + "auth: {issuers: [{tenant: a}]}\n", "has no url"},
		{"plain http", ofTenants + "auth: {issuers: [{url: \"http://i.example\", tenant: a}]}\n", "is not an https URL of that form"},
		{"a login in it", ofTenants + "auth: {issuers: [{url: \"https://u:p@i.example\", tenant: a}]}\n", "is not an https URL of that form"},
		{"a query in it", ofTenants + "auth: {issuers: [{url: \"https://i.example/?a\", tenant: a}]}\n", "is not an https URL of that form"},
		{"what separates it from a subject", ofTenants + "auth: {issuers: [{url: \"https://i.example/a|b\", tenant: a}]}\n", "is not an https URL of that form"},
		{"twice", ofTenants + "auth: {issuers: [{url: \"https://i.example\", tenant: a}, {url: \"https://i.example\", tenant: b}]}\n", "stands here a second time"},
		{"symmetric", issuer("algorithms: HS256"), "algorithms cannot be"},
		{"unsigned", issuer("algorithms: none"), "algorithms cannot be"},
		{"type", issuer("types: id+jwt"), "types cannot be"},
		{"addresses", issuer("addresses: 10.0.0"), "is not a range of addresses"},
		{"bits", issuer("addresses: 10.0.0.1/8"), "has bits set after its prefix"},
		{"keys", issuer("keys: \"http://i.example/keys\""), "keys is not an https URL of that form"},
		{"audiences", issuer("audience: [" + many(20, "a%d") + "]"), "more than the 16"},
		{"many addresses", issuer("addresses: [" + many(20, "10.0.0.%d") + "]"), "more than the 16"},
		{"no tenant said", ofTenants + "auth: {issuers: [{url: \"https://i.example\"}]}\n", "exactly one key must say"},
		{"said twice", issuer("tenant_of: {claim: org, map: {x: a}}"), "exactly one key must say"},
		{"tenant", ofTenants + "auth: {issuers: [{url: \"https://i.example\", tenant: c}]}\n", "tenant \"c\" does not exist"},
		{"mapped tenant", ofTenants + "auth: {issuers: [{url: \"https://i.example\", tenant_of: {claim: org, map: {x: c}}}]}\n", "tenant \"c\" does not exist"},
		{"no claim", ofTenants + "auth: {issuers: [{url: \"https://i.example\", tenant_of: {map: {x: a}}}]}\n", "needs the keys claim and map"},
		{"no values", ofTenants + "auth: {issuers: [{url: \"https://i.example\", tenant_of: {claim: x, map: {}}}]}\n", "map must have"},
		{"empty value", ofTenants + "auth: {issuers: [{url: \"https://i.example\", tenant_of: {claim: x, map: {\"\": a}}}]}\n", "must not be empty"},
		{"no condition", ofTenants + "auth: {issuers: [{url: \"https://i.example\", tenant_when: []}]}\n", "tenant_when must not be empty"},
		{"half a condition", ofTenants + "auth: {issuers: [{url: \"https://i.example\", tenant_when: [{tenant: a}]}]}\n", "needs the keys when and tenant"},
		{"another variable", ofTenants + "auth: {issuers: [{url: \"https://i.example\", tenant_when: [{when: 'org == \"x\"', tenant: a}]}]}\n", "org"},
		{"no truth", ofTenants + "auth: {issuers: [{url: \"https://i.example\", tenant_when: [{when: 'claims.size()', tenant: a}]}]}\n", "is of the type int"},
		{"long condition", ofTenants + "auth: {issuers: [{url: \"https://i.example\", tenant_when: [{when: '" + strings.Repeat("true||", 700) + "true', tenant: a}]}]}\n", "bytes, more than"},
		{"scopes", ofTenants + "auth: {scopes: {}}\n", "there must be 1 to"},
		{"a scope's name", ofTenants + "auth: {scopes: {\"a b\": {tools: Read}}}\n", "cannot be the name of a scope"},
		{"a scope without tools", ofTenants + "auth: {scopes: {read: {}}}\n", "has no tools"},
		{"a scope of no profile", ofTenants + "auth: {scopes: {read: {tools: Read, profiles: [none]}}}\n", "does not exist"},
	} {
		e := faults(t, tt.text)
		if !strings.Contains(e.Error(), tt.want) {
			t.Errorf("%s: got\n%.2000v\nwant %q", tt.name, e, tt.want)
		}
		e.Faults = e.Faults[:min(len(e.Faults), 2)]
		all = append(all, e.Error())
	}
	golden.Equal(t, "faults/auth.golden", strings.Join(all, "\n\n")+"\n")
}

func TestTenantOfIssuer(t *testing.T) {
	p, err := policies.Parse("policy.yaml", []byte(ofTenants+`auth:
  issuers:
    - {url: "https://one.example", tenant: a}
    - {url: "https://two.example", tenant_of: {claim: "https://x.example/org", map: {acme: a, "Beta GmbH": b}}}
    - url: https://three.example
      tenant_when:
        - {when: 'claims.org == "acme" && "dev" in claims.groups', tenant: a}
        - {when: 'claims.org == "beta"', tenant: b}
`))
	if err != nil {
		t.Fatal(err)
	}
	type claims = map[string]any
	var all []string
	for _, tt := range []struct {
		issuer int
		claims claims
		want   string
	}{
		{0, claims{}, "a"},
		{1, claims{"https://x.example/org": "acme"}, "a"},
		{1, claims{"https://x.example/org": "Beta GmbH"}, "b"},
		{1, claims{"https://x.example/org": "ACME"}, ""},
		{1, claims{"https://x.example/org": []any{"acme"}}, ""},
		{1, claims{}, ""},
		{2, claims{"org": "acme", "groups": []any{"ops", "dev"}}, "a"},
		{2, claims{"org": "acme", "groups": []any{"ops"}}, ""},
		// The first condition looks at a member that is missing: the second one is not
		// evaluated.
		{2, claims{"org": "acme"}, ""},
		{2, claims{"org": "beta"}, "b"},
		{2, claims{"groups": []any{}}, ""},
		{2, claims{"org": 7.0}, ""},
	} {
		issuer := p.Login().Issuers()[tt.issuer]
		got, why := issuer.Tenant(tt.claims)
		if got != tt.want || (why == "") != (got != "") {
			t.Errorf("%s %v: got %q (%s), want %q", issuer.URL, tt.claims, got, why, tt.want)
		}
		if why != "" {
			all = append(all, why)
		}
	}
	golden.Equal(t, "faults/tenantof.golden", strings.Join(all, "\n")+"\n")
}

// Scopes take away from what a tenant may do, and add nothing to it.
func TestScopesNarrow(t *testing.T) {
	p, err := policies.Parse("policy.yaml", []byte(ofTenants+`auth:
  scopes:
    read: {tools: [Read, Search]}
    run: {tools: "*", profiles: [dev]}
    all: {tools: "*", profiles: [dev, wide, offline]}
rules:
  - {id: widens, match: {tool: BackgroundBash}, decision: allow, profile: wide}
  - {id: never, match: {tool: KillBgTask}, decision: deny, reason: Never.}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Login().Scopes(), []string{"read", "run", "all"}; !slices.Equal(got, want) {
		t.Errorf("scopes %v, want %v", got, want)
	}
	var all []string
	for _, tt := range []struct {
		tenant, tool, profile string
		scopes                []string
		rule                  string // rule that denies the call; empty if it is allowed
		missing               string // result of MissingScopes; "-" if it is nil
	}{
		{"a", "Read", "", nil, "", "-"},
		{"a", "Read", "wide", nil, "", "-"},
		{"a", "Read", "", []string{"read"}, "", "-"},
		{"a", "Read", "dev", []string{"read"}, "scope", "read run"},
		{"a", "Bash", "", []string{"read"}, "scope", "read run"},
		{"a", "Bash", "", []string{"read", "run"}, "", "-"},
		{"a", "Bash", "wide", []string{"run", "read"}, "scope", "read run all"},
		{"a", "Bash", "wide", []string{"all"}, "", "-"},
		{"a", "Bash", "", []string{}, "scope", "run"},
		{"a", "Bash", "", []string{"nosuch"}, "scope", "run"},
		{"b", "Bash", "", []string{"run"}, "", "-"},
		// A scope does not give what the tenant may not do.
		{"b", "Bash", "wide", []string{"all"}, "may-request", "-"},
		{"a", "KillBgTask", "", []string{"all"}, "never", "-"},
		// A rule that grants a profile grants it only to tokens whose scopes allow that
		// profile.
		{"a", "BackgroundBash", "", []string{"run"}, "scope", "-"},
		{"a", "BackgroundBash", "", []string{"all"}, "", "-"},
	} {
		d := p.Decide(policies.Facts{Tenant: tt.tenant, Tool: tt.tool, Profile: tt.profile, Scopes: tt.scopes, Command: "true"})
		if got := d.Verdict == policies.Allow; got != (tt.rule == "") || !got && d.Rule != tt.rule {
			t.Errorf("%s %s %q with %v: %s by %s, want %q", tt.tenant, tt.tool, tt.profile, tt.scopes, d.Verdict, d.Rule, tt.rule)
		}
		if d.Rule == "scope" {
			all = append(all, d.Denied("c-1").Text())
		}
		missing := "-"
		if tt.scopes != nil {
			if m := p.Login().MissingScopes(tt.tenant, tt.scopes, tt.tool, tt.profile); m != nil {
				missing = strings.Join(m, " ")
			}
		}
		if tt.scopes != nil && tt.rule != "may-request" && missing != tt.missing {
			t.Errorf("%s %s %q with %v: missing %q, want %q", tt.tenant, tt.tool, tt.profile, tt.scopes, missing, tt.missing)
		}
	}
	none, err := policies.Parse("policy.yaml", []byte(ofTenants+"auth: {scopes: {read: {tools: Read}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	d := none.Decide(policies.Facts{Tenant: "a", Tool: "Bash", Scopes: []string{"read"}})
	if missing := none.Login().MissingScopes("a", []string{"read"}, "Bash", ""); d.Rule != "scope" || missing == nil || len(missing) > 0 {
		t.Errorf("no scope is enough: %s, missing %v", d.Rule, missing)
	}
	// The tool is covered, and only the profile is not.
	dev := none.Decide(policies.Facts{Tenant: "a", Tool: "Read", Profile: "dev", Scopes: []string{"read"}})
	if dev.Rule != "scope" || !strings.HasPrefix(dev.Instead, "Repeat the call without a profile: ") {
		t.Errorf("a profile that no scope covers: %s, %q", dev.Rule, dev.Instead)
	}
	if d := none.Decide(policies.Facts{Tenant: "a", Tool: "Read", Scopes: []string{"read"}}); d.Verdict != policies.Allow {
		t.Errorf("without the profile: %v by %s", d.Verdict, d.Rule)
	}
	golden.Equal(t, "faults/scopes.golden", strings.Join(append(all, d.Denied("c-1").Text(), dev.Denied("c-1").Text()), "\n\n")+"\n")
}
