package gateway

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar.dev/policies"
)

// What a file of variables has is a part of what runs.
func TestEnvFileIsPinned(t *testing.T) {
	g := place(t, "/nowhere")
	dir := t.TempDir()
	g.cfg.Policy = func() *policies.Policy {
		p, err := policies.Parse("policy.yaml", []byte("version: 1\nprofiles: {a: {}}\nupstreams: {from: ["+filepath.Join(dir, "mcp.json")+"]}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	read := func(variables string) *server {
		t.Helper()
		for name, text := range map[string]string{"mcp.json": `{"mcpServers": {"s": {"command": "x", "envFile": ".env"}}}`, ".env": variables} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		all, err := g.readSetup()
		if err != nil || all.servers["s"] == nil {
			t.Fatalf("%v, %+v", err, all)
		}
		return all.servers["s"]
	}
	first := read("TOKEN=1\nNODE_OPTIONS=--x\n")
	if !slices.ContainsFunc(first.pinned.Env, func(v string) bool { return strings.HasPrefix(v, "NODE_OPTIONS=") }) || !slices.Contains(first.pinned.Env, "TOKEN") {
		t.Errorf("pinned is %q", first.pinned.Env)
	}
	if read("TOKEN=1\nNODE_OPTIONS=--x\n").ID != first.ID {
		t.Error("the same variables make another server")
	}
	if read("TOKEN=2\nNODE_OPTIONS=--x\n").ID == first.ID {
		t.Error("a server lives on with the variables of before")
	}
}

// A file in a mount that lies in another one is digested where the box has it from.
func TestDigestOfInnerMounts(t *testing.T) {
	p, err := policies.Parse("policy.yaml", []byte("version: 1\nprofiles: {a: {}}\nupstreams: {servers: {s: {profile: {fs: {read: [\"/outer:/opt/x\", \"/inner:/opt/x/y\"]}}}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	grant, err := p.Upstreams().Grant(policies.LocalTenant, policies.UpstreamBox{Server: "s", Trusted: true})
	if err != nil {
		t.Fatal(err)
	}
	g := newSite(Config{Workspace: "/place"})
	for name, want := range map[string]string{
		"/opt/x/run": "/outer/run", "/opt/x/y/run": "/inner/run", "/opt/x/yz": "/outer/yz", "/opt/x/y/../run": "/outer/run",
		"/workspace/run": "/place/run", "/usr/lib/run": "/usr/lib/run", "/opt/xy": "/opt/xy",
	} {
		got, below := g.onHost(name, &server{}, grant)
		if got != want || (below == "/place") != strings.HasPrefix(want, "/place/") {
			t.Errorf("%s: got %s below %q, want %s", name, got, below, want)
		}
	}
}

// A link where boxes can write leads to no file of the host that the box does not see: its digest
// would be compared, and another file would run.
func TestDigestsStayInTheirDirectory(t *testing.T) {
	dir := t.TempDir()
	below := filepath.Join(dir, "below")
	if err := os.MkdirAll(filepath.Join(below, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(dir, "outside"), filepath.Join(below, "sub", "inside")} {
		if err := os.WriteFile(name, []byte("one"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"near": "sub/inside", "far": "../outside", "absolute": filepath.Join(dir, "outside"), "gone": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(below, name)); err != nil {
			t.Fatal(err)
		}
	}
	mkfifo(t, filepath.Join(below, "pipe"))
	for name, fails := range map[string]bool{"sub/inside": false, "near": false, "gone": false, "nothing": false, "far": true, "absolute": true, "pipe": true, "pipe/x": true} {
		sum, err := digestFile(filepath.Join(below, name), below)
		if (err != nil) != fails || (sum != "") != strings.HasSuffix(name, "inside") && name != "near" {
			t.Errorf("%s: got %q, %v", name, sum, err)
		}
		if _, err := locked(below, []string{name}); fails && err == nil {
			t.Errorf("%s: it is taken as the list of what a launcher fetched", name)
		}
	}
}
