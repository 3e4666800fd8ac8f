package policies_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/policies"
)

func TestExtends(t *testing.T) {
	p := parse(t, `version: 1
defaults: {decision: allow, profile: base}
profiles:
  grandchild: {extends: dev, limits: {pids: 7}, env: {B: "3"}, net: {limits: {connections: 5}}, require: [pids], read: {redirects: follow}, browser: {walls: degraded}}
  dev:
    extends: base
    fs: {workspace: ro, write: [/srv/out]}
    net: {mode: proxy, allow: [a.example, b.example], ports: [443], limits: {connections: 9, bytes: 1MiB}}
    env: {B: "2"}
    publish: [3000]
    read: {robots: respect}
    browser: {walls: sandboxed, act: true}
  narrow: {extends: dev, net: {allow: [c.example]}, publish: [4000]}
  off: {extends: dev, net: {mode: none}, fs: {read: [/srv/in], write: [/srv/other]}}
  base:
    fs: {system: true, workspace: rw, read: [/opt/a, /opt/b], protect: [x]}
    limits: {memory: 1GiB, wall: 2m}
    env: {A: "1", B: "1"}
    require: [memory]
  image: {extends: base, fs: {system: false, image: debian}}
`)
	type brief struct {
		Workspace policies.Access
		System    bool
		Image     string
		Mounts    []string
		Net       policies.Network
		Allow     int
		Conns     int
		Bytes     int64
		Publish   int
		Memory    int64
		Pids      int64
		Wall      time.Duration
		Env       []string
		Require   []policies.Limit
		Protect   []string
		Robots    bool
		Redirects bool
		Browser   policies.Browser
		Acts      bool
	}
	brieve := func(name string) brief {
		s, ok := p.Profile(name)
		if !ok {
			t.Fatalf("there is no profile %s", name)
		}
		b := brief{
			Workspace: s.Workspace, System: s.System, Image: s.Image, Net: s.Network, Allow: len(s.Egress.Allow), Conns: s.Egress.Limits.Conns, Bytes: s.Egress.Limits.Bytes,
			Publish: len(s.Publish), Memory: s.Limits.Memory, Pids: s.Limits.Pids, Wall: s.Limits.Wall, Require: s.Require, Protect: s.Protect.Also,
			Robots: s.Reading.Robots, Redirects: s.Reading.Redirects, Browser: s.Browser, Acts: s.Acting.Act,
		}
		for _, m := range s.Mounts {
			b.Mounts = append(b.Mounts, fmt.Sprintf("%s %v", m.Target, m.Writable))
		}
		for k, v := range p.Decide(policies.Facts{Tenant: "t", Tool: "x", Profile: name}).Grant.Env() {
			b.Env = append(b.Env, k+"="+v)
		}
		return b
	}
	base := brief{
		Workspace: policies.AccessWrite, System: true, Mounts: []string{"/opt/a false", "/opt/b false"}, Memory: 1 << 30, Pids: policies.DefaultPids, Wall: 2 * time.Minute,
		Env: []string{"A=1", "B=1"}, Require: []policies.Limit{"memory"}, Protect: []string{"x"},
	}
	dev := base
	dev.Workspace, dev.Mounts, dev.Net, dev.Allow, dev.Conns, dev.Bytes, dev.Publish = policies.AccessRead, append([]string{"/srv/out true"}, base.Mounts...), policies.NetworkDoor, 2, 9, 1<<20, 1
	dev.Env, dev.Robots, dev.Browser, dev.Acts = []string{"A=1", "B=2"}, true, policies.BrowserSandboxed, true
	grandchild := dev
	grandchild.Pids, grandchild.Conns, grandchild.Env, grandchild.Require = 7, 5, []string{"A=1", "B=3"}, []policies.Limit{"pids"}
	grandchild.Redirects, grandchild.Browser, grandchild.Acts = true, policies.BrowserDegraded, false
	narrow := dev
	narrow.Allow = 1
	off := dev
	off.Net, off.Allow, off.Conns, off.Bytes, off.Mounts = policies.NetworkNone, 0, 0, 0, []string{"/srv/in false", "/srv/other true"}
	image := base
	image.System, image.Image = false, "debian"
	sorted := cmp.Transformer("sorted", func(in []string) map[string]bool {
		set := make(map[string]bool)
		for _, s := range in {
			set[s] = true
		}
		return set
	})
	for name, want := range map[string]brief{"base": base, "dev": dev, "grandchild": grandchild, "narrow": narrow, "off": off, "image": image} {
		if diff := cmp.Diff(want, brieve(name), sorted); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A long line of profiles is refused at its bound, before it uses much memory.
func TestExtendsLongLine(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\ndefaults: {profile: p0}\nprofiles:\n  p0: {}\n")
	for i := range 900 {
		fmt.Fprintf(&b, "  p%d: {extends: p%d, env: {", i+1, i)
		for k := range 20 {
			fmt.Fprintf(&b, "V%d_%d: a,", i, k)
		}
		b.WriteString("}}\n")
	}
	e := faults(t, b.String())
	if len(e.Faults) != 50 || e.More == 0 || !strings.Contains(e.Faults[0].Message, "extends more than 8 others") {
		t.Errorf("got %d faults and %d more, the first %v", len(e.Faults), e.More, e.Faults[0])
	}
}
