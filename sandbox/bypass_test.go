package sandbox_test

import (
	"net"
	"os"
	"strings"
	"testing"

	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// bypassPolicy is what the doors of the attempts let through.
const bypassPolicy = `version: 1
defaults: {decision: allow, profile: dev}
profiles:
  dev:
    fs: {system: true, workspace: ro}
    net:
      mode: proxy
      allow:
        - allowed.example
        - {host: judged.example, ports: [80], methods: [GET], paths: ["/v1/**"]}
        - "*.wild.example"
        - {host: denied-by-address.example, ports: [8080]}
        - {host: rebind.example, ports: [80, 81]}
        - flutter.example
        - both.example
        - private.example
        - shared.example
        - local.example
        - loop.example
        - zero.example
        - cloud.example
        - own.example
        - fake.example
        - mapped.example
        - nat64.example
        - sixtofour.example
        - teredo.example
        - isatap.example
        - ula.example
        - loop6.example
        - doc6.example
      deny: [denied.example, bad.wild.example, "93.184.216.36"]
      allow_private: ["dev.example:3000"]
      limits: {connections: 64, rate: 10000}
  other:
    fs: {system: true, workspace: ro}
    net: {mode: proxy, allow: ["*.unused.example", other.example]}
`

// TestBypass makes every attempt in both worlds: outside it must get through,
// or it shows nothing, and in a box the door or the kernel must refuse it and
// say why.
func TestBypass(t *testing.T) {
	if !inNetwork(t) {
		return
	}
	n := newInternet(t)
	s, dir := worldOf(t, sandbox.Config{Resolver: n.names})
	addProber(t, dir)
	open := func(id, profile string) *sandbox.Box {
		g := policytest.GrantFor(t, bypassPolicy, policies.Facts{Tenant: id, Tool: "Bash", Command: "true", Profile: profile})
		b, err := s.Open(t.Context(), id, g)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	box, other := open("dev", "dev"), open("other", "other")
	l, err := net.Listen("unix", "@belljar-bypass-"+n.token)
	if err != nil {
		t.Fatal(err)
	}
	n.accept(l, plain)
	p := place{Token: n.token, Fake: fakeOf(t, other), Abstract: l.Addr().String(), Pid: os.Getpid()}
	for _, b := range allBypasses() {
		t.Run(b.name, func(t *testing.T) { n.attempt(t, box, b, p) })
	}
}

// fakeOf is what a box connects to for other.example, after it has asked for so
// many other names that the address stands for none in the next box.
func fakeOf(t *testing.T, box *sandbox.Box) string {
	t.Helper()
	_, out := shell(t, box, "for i in $(seq 60); do getent ahostsv4 n$i.unused.example; done >/dev/null; getent ahostsv4 other.example | awk '/STREAM/ {print $1}'")
	fake := strings.TrimSpace(out)
	if !strings.HasPrefix(fake, "198.18.") {
		t.Fatalf("the other box connects to %q", out)
	}
	return fake
}

// attempt makes one attempt in both worlds.
func (n *internet) attempt(t *testing.T, box *sandbox.Box, b bypass, p place) {
	t.Helper()
	n.names.rebind("rebind.example", publicAddr, "127.0.0.1")
	n.names.rebind("flutter.example", publicAddr, "127.0.0.1", publicAddr, "127.0.0.1")
	n.names.rebind("both.example", publicAddr+" 127.0.0.1")
	if b.alone == "" {
		outside := p
		outside.Outside, outside.Names = true, n.outside()
		if o := b.try(&outside); !o.Through {
			t.Errorf("outside it does not get through either, so it shows nothing: %s", o.Detail)
		}
	}
	o, r := b.inside(t, box, &p)
	var said []string
	for _, rec := range r.Blocked {
		said = append(said, rec.Refusal())
	}
	all := strings.Join(said, "\n")
	switch {
	case o.Through:
		t.Errorf("inside it got through: %s", o.Detail)
	case !strings.Contains(o.Detail, b.fails):
		t.Errorf("inside it failed with %q, want %q", o.Detail, b.fails)
	case b.says != "" && !strings.Contains(all, b.says):
		t.Errorf("the door says %q, want %q; inside: %s", all, b.says, o.Detail)
	case b.says == "" && b.fails == "":
		t.Error("nothing says what refuses it")
	}
	t.Logf("inside: %s\nblocked: %s", o.Detail, all)
}
