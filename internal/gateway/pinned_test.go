package gateway

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp/upstream"
	"belljar.dev/policies"
)

// The contents of a file of variables are a part of the pinned command.
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

// A file in a mount that lies inside another mount is digested at the path from which the
// box gets it.
func TestDigestOfInnerMounts(t *testing.T) {
	p, err := policies.Parse("policy.yaml", []byte("version: 1\nprofiles: {a: {}}\nupstreams: {servers: {s: {profile: {fs: {read: [\"/outer:/opt/x\", \"/inner:/opt/x/y\"]}}}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	grant, err := p.Upstreams().Grant(policies.LocalTenant, policies.UpstreamBox{Server: "s", Trusted: true})
	if err != nil {
		t.Fatal(err)
	}
	// Boxes can write /inner, which is the workspace of another place, and /opt/written,
	// which is in another profile.
	g := newSite(Config{Workspace: "/place", Trusted: func(file string) bool {
		return !strings.HasPrefix(file, "/place/") && !strings.HasPrefix(file, "/inner/") && !strings.HasPrefix(file, "/opt/written/")
	}})
	for name, want := range map[string][2]string{
		"/opt/x/run": {"/outer/run"}, "/opt/x/y/run": {"/inner/run", "/inner"}, "/opt/x/yz": {"/outer/yz"}, "/opt/x/y/../run": {"/outer/run"},
		"/workspace/run": {"/place/run", "/place"}, "/usr/lib/run": {"/usr/lib/run"}, "/opt/xy": {"/opt/xy"}, "/opt/written/run": {"/opt/written/run", "/"},
	} {
		got, below := g.onHost(name, &server{}, grant)
		if got != want[0] || below != want[1] {
			t.Errorf("%s: got %s below %q, want %q", name, got, below, want)
		}
	}
}

// A link that a box could have written does not lead to a host file that the box does not
// see. Otherwise the digest would be of another file than the one that runs.
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

// A file that is mounted by itself is digested too. A link in its place is not.
func TestDigestOfAMountedFile(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", link); err != nil {
		t.Fatal(err)
	}
	if sum, err := digestFile(file, file); sum == "" || err != nil {
		t.Errorf("got %q, %v", sum, err)
	}
	if sum, err := digestFile(link, link); err == nil {
		t.Errorf("got %q of the file behind a link", sum)
	}
}

// GW-A33: a package is held if another version of it was fetched than the trusted one. The
// lock of its launcher contains the version that a name such as @latest means.
func TestLockIsPinned(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces)
	g := &gated{t: t, workspace: t.TempDir(), files: t.TempDir()}
	g.use("", "")
	file, fetched := filepath.Join(g.files, "mcp.json"), t.TempDir()
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"s": {"command": "npx", "args": ["-y", "@example/tool@latest"]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	g.open(file)
	s := g.setup().servers["s"]
	if len(s.pinned.Locks) == 0 {
		t.Fatal("npx has no lock")
	}
	grant, err := g.policy.Load().Upstreams().Grant(policies.LocalTenant, policies.UpstreamBox{Server: "s", Trusted: true})
	if err != nil {
		t.Fatal(err)
	}
	check := func(version string) error {
		t.Helper()
		lock := filepath.Join(fetched, strings.ReplaceAll(s.pinned.Locks[0], "*", "x"))
		if err := os.MkdirAll(filepath.Dir(lock), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(lock, []byte(`{"packages": {"node_modules/@example/tool": {"version": "`+version+`"}}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := g.check(t.Context(), upstream.Spec{Key: upstream.Key{Server: "s", Caller: upstream.Caller{Tenant: policies.LocalTenant}}, Server: s.Server, Grant: grant}, fetched, false)
		return err
	}
	for range 2 {
		if err := check("1.0.0"); err != nil {
			t.Fatal(err)
		}
	}
	if err := check("1.0.1"); !errors.Is(err, upstream.ErrHeld) {
		t.Errorf("another version: got %v", err)
	}
	if err := check("1.0.0"); err != nil {
		t.Errorf("the trusted version again: %v", err)
	}
}
