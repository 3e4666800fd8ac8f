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

// bypassPolicy is the policy of the doors in these attempts.
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

// TestBypass makes every attempt in both worlds. Outside it must get through, because
// otherwise it proves nothing. In a box the door or the kernel must refuse it and say why.
// This is done for both ways in which connections reach the door.
func TestBypass(t *testing.T) {
	if !inNetwork(t) {
		return
	}
	n := newInternet(t)
	l, err := net.Listen("unix", "@belljar-bypass-"+n.token)
	if err != nil {
		t.Fatal(err)
	}
	n.accept(l, plain)
	p := place{Token: n.token, Abstract: l.Addr().String(), Pid: os.Getpid()}
	t.Run("outside", func(t *testing.T) {
		for _, b := range allBypasses() {
			t.Run(b.name, func(t *testing.T) { n.goesThrough(t, b, p) })
		}
	})
	for _, way := range []string{"redirected", "by port"} {
		t.Run(way, func(t *testing.T) {
			s, dir := worldOf(t, sandbox.Config{Resolver: n.names})
			if way == "by port" {
				s.ByPort()
			}
			addProber(t, dir)
			open := func(profile string) *sandbox.Box {
				g := policytest.GrantFor(t, bypassPolicy, policies.Facts{Tenant: profile, Tool: "Bash", Command: "true", Profile: profile})
				b, err := s.Open(t.Context(), profile, g)
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			box, p := open("dev"), p
			p.Fake = fakeOf(t, open("other"))
			for _, b := range allBypasses() {
				if way == "by port" && b.mute {
					b.says, b.fails = "", "connection re" // connection refused, or connection reset
				}
				t.Run(b.name, func(t *testing.T) { n.isHeld(t, box, b, p) })
			}
			// The resolver outside the door is not asked for a name that is refused.
			for _, part := range []string{"exfil", "data.", "deep.wild", "long.wild", "denied.example", "other.example"} {
				if n.names.wasAsked(part) {
					t.Errorf("the host was asked for a name with %q in it", part)
				}
			}
		})
	}
}

// fakeOf returns the address to which a box connects for other.example, after the box has
// asked for so many other names that the address stands for no name in the next box.
func fakeOf(t *testing.T, box *sandbox.Box) string {
	t.Helper()
	_, out := shell(t, box, "for i in $(seq 60); do getent ahostsv4 n$i.unused.example; done >/dev/null; getent ahostsv4 other.example | awk '/STREAM/ {print $1}'")
	fake := strings.TrimSpace(out)
	if !strings.HasPrefix(fake, "198.18.") {
		t.Fatalf("the other box connects to %q", out)
	}
	return fake
}

// rebind restarts the names whose answers change.
func (n *internet) rebind() {
	n.names.rebind("rebind.example", publicAddr, "127.0.0.1")
	n.names.rebind("flutter.example", publicAddr, "127.0.0.1", publicAddr, "127.0.0.1")
	n.names.rebind("both.example", publicAddr+" 127.0.0.1")
}

// goesThrough makes an attempt outside, where it must get through.
func (n *internet) goesThrough(t *testing.T, b bypass, p place) {
	t.Helper()
	if b.alone != "" {
		t.Skip("outside nothing is to be shown: " + b.alone)
	}
	n.rebind()
	p.Outside, p.Names, p.Fake = true, n.outside(), "198.18.0.61"
	o := b.try(&p)
	for range 2 { // a busy machine is too slow for some of them
		if !o.Through {
			o = b.try(&p)
		}
	}
	if !o.Through {
		t.Errorf("it does not get through outside either, so it shows nothing: %s", o.Detail)
	}
	t.Log(o.Detail)
}

// isHeld makes an attempt in a box, where it must be refused.
func (n *internet) isHeld(t *testing.T, box *sandbox.Box, b bypass, p place) {
	t.Helper()
	n.rebind()
	o, r := b.inside(t, box, &p)
	var said []string
	for _, rec := range r.Blocked {
		said = append(said, rec.Refusal())
	}
	all := strings.Join(said, "\n")
	switch {
	case o.Through:
		t.Errorf("it got through: %s", o.Detail)
	case !strings.Contains(o.Detail, b.fails):
		t.Errorf("it failed with %q, want %q", o.Detail, b.fails)
	case b.says != "" && !strings.Contains(all, b.says):
		t.Errorf("the door says %q, want %q; the act: %s", all, b.says, o.Detail)
	case b.says == "" && b.fails == "":
		t.Error("nothing says what refuses it")
	}
	t.Logf("%s\n%s", o.Detail, all)
}
