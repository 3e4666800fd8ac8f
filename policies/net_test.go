package policies_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"belljar.dev/policies"
)

// network is a profile with all that can be said about the network.
const network = `version: 1
defaults: {decision: allow}
secrets:
  github: {env: GITHUB_TOKEN}
  npm: {file: /etc/belljar/npm.token}
  vault: {command: [vault, read, -field=token, secret/x]}
profiles:
  dev:
    fs: {workspace: overlay, image: "tools/go:1.26"}
    net:
      mode: proxy
      allow: [API.github.com, "*.pypi.example", "files.example:8443", "[2001:DB8::1]:443", {host: api.example, ports: 443, methods: [HEAD, GET], paths: "/v1/**"}]
      deny: [evil.pypi.example, {host: "*", ports: [25]}, {host: api.github.com, methods: DELETE}]
      allow_private: ["localhost:3000", "10.1.2.3:5432", db.internal]
      ports: [443, 80]
      tls: intercept
      limits: {connections: 8, rate: 0.5, bytes: 1MiB, idle: 10s, life: 2m}
      secrets: [{secret: github, host: api.github.com, methods: [GET], paths: ["/repos/**"], header: authorization, value: "Bearer ${secret:github}"}]
    publish: ["8000-8099", 3000]
`

func TestGrantHoldsTheNetwork(t *testing.T) {
	p := parse(t, network)
	g := p.Decide(bash("ls")).Grant
	host := func(s string) policies.Host {
		h, err := policies.ParseHost(s)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	web := []uint16{80, 443}
	want := &policies.Egress{
		Allow: []policies.EgressRule{
			{Host: "api.github.com", Ports: web},
			{Host: "*.pypi.example", Ports: web},
			{Host: "files.example", Ports: []uint16{8443}},
			{Host: "2001:db8::1", Ports: []uint16{443}},
			{Host: "api.example", Ports: []uint16{443}, Methods: []string{"GET", "HEAD"}, Paths: []string{"/v1/**"}},
		},
		Deny: []policies.EgressRule{
			{Host: "evil.pypi.example"},
			{Host: "*", Ports: []uint16{25}},
			{Host: "api.github.com", Methods: []string{"DELETE"}},
		},
		Private: []policies.PrivateRule{
			{Host: host("localhost"), Port: 3000}, {Host: host("10.1.2.3"), Port: 5432},
			{Host: host("db.internal")}, {Host: host("db.internal"), Port: 80}, {Host: host("db.internal"), Port: 443},
		},
		Limits:    policies.EgressLimits{Conns: 8, Rate: 0.5, Bytes: 1 << 20, Idle: 10 * time.Second, Life: 2 * time.Minute},
		Secrets:   []policies.SecretHeader{{Secret: "github", Host: "api.github.com", Methods: []string{"GET"}, Paths: []string{"/repos/**"}, Header: "Authorization", Value: "Bearer ${secret:github}"}},
		Intercept: true,
	}
	same := cmp.Options{
		cmpopts.IgnoreUnexported(policies.EgressRule{}, policies.SecretHeader{}), cmpopts.IgnoreFields(policies.EgressRule{}, "Source"),
		cmp.Comparer(func(a, b policies.Host) bool { return a == b }),
	}
	if diff := cmp.Diff(want, g.Egress(), same); diff != "" {
		t.Errorf("egress (-want +got):\n%s", diff)
	}
	if got := g.Egress().Allow[2].Source; got != (policies.Source{File: "policy.yaml", Line: 12, Col: 49}) {
		t.Errorf("the third rule of allow: got %+v", got)
	}
	if diff := cmp.Diff([]policies.PortRange{{First: 3000, Last: 3000}, {First: 8000, Last: 8099}}, g.Publish()); diff != "" {
		t.Errorf("publish (-want +got):\n%s", diff)
	}
	if g.Workspace() != policies.AccessOverlay || g.Network() != policies.NetworkDoor || g.Image() != "tools/go:1.26" {
		t.Errorf("got %v, %v, %q", g.Workspace(), g.Network(), g.Image())
	}
	for name, want := range map[string]policies.Secret{
		"github": {Env: "GITHUB_TOKEN"},
		"npm":    {File: "/etc/belljar/npm.token"},
		"vault":  {Command: []string{"vault", "read", "-field=token", "secret/x"}},
	} {
		got, ok := p.Secret(name)
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("secret %s, %v (-want +got):\n%s", name, ok, diff)
		}
	}
	if _, ok := p.Secret("GITHUB_TOKEN"); ok {
		t.Error("there is a secret that nobody defined")
	}
}

func TestNetworkDefaults(t *testing.T) {
	p := parse(t, "version: 1\ndefaults: {decision: allow}\nprofiles: {a: {net: {mode: proxy, allow: files.example}}}\n")
	e := p.Decide(bash("ls")).Grant.Egress()
	want := policies.EgressLimits{
		Conns: policies.DefaultConns, Rate: policies.DefaultConnRate, Bytes: policies.DefaultEgressBytes,
		Idle: policies.DefaultConnIdle, Life: policies.DefaultConnLife,
	}
	if e.Limits != want || e.Intercept || len(e.Allow) != 1 || cmp.Diff(e.Allow[0].Ports, []uint16{80, 443}) != "" {
		t.Errorf("got %+v", e)
	}
	none := parse(t, "version: 1\ndefaults: {decision: allow}\nprofiles: {a: {net: {mode: none}}}\n").Decide(bash("ls")).Grant
	if none.Network() != policies.NetworkNone || none.Egress() == nil || !none.Egress().IsZero() {
		t.Errorf("mode none: got %v, %+v", none.Network(), none.Egress())
	}
}
