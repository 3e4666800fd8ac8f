package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/kernel"
)

// laidOver returns the grant of a server's box with a layer over a directory.
func laidOver(t *testing.T, dir, profile string) policies.Grant {
	t.Helper()
	p, err := policies.Parse("policy.yaml", []byte("version: 1\ndefaults: {decision: allow}\nprofiles: {a: {}}\nupstreams: {servers: {s: {profile: {fs: {system: true}"+profile+"}}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := p.Upstreams().Grant("t", policies.UpstreamBox{Server: "s", Trusted: true, Cache: dir, Layer: true})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A box writes, changes, renames and removes files in a tree with a layer over it. The tree
// itself stays as it is, another box sees it unchanged, and the layer is bounded.
func TestLayerOverATree(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	if !kernel.Since(6, 6) {
		t.Skip("a layer over a tree takes Linux 6.6")
	}
	dir := t.TempDir()
	write(t, dir+"/kept", "kept\n")
	write(t, dir+"/changed", "old\n")
	write(t, dir+"/removed", "gone\n")
	if err := os.Mkdir(dir+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/sub/file", "in it\n")
	if err := os.Symlink("kept", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	b, _ := openIn(t, sandbox.Config{Workspace: t.TempDir()}, laidOver(t, dir, ", limits: {tmp: 4MiB}"))
	const at = policies.UpstreamCache
	_, out := shell(t, b, `cd `+at+` && echo new >made && echo more >>changed && rm removed && rm -r sub && mkdir sub && touch sub/other && mv kept moved && chmod 700 moved && ls -R | tr '\n' ' ' && cat changed moved &&
		head -c 16m /dev/zero >large 2>/dev/null; stat -c ' %s' large; touch /usr/bin/x 2>/dev/null && echo out; mknod node c 0 0 2>/dev/null && echo device; mount -t tmpfs x sub 2>/dev/null && echo mounted`)
	if !strings.HasPrefix(out, ".: changed link made moved sub  ./sub: other old\nmore\nkept\n") {
		t.Errorf("got %q", out)
	}
	if size := strings.TrimSpace(out[strings.LastIndex(strings.TrimSpace(out), " ")+1:]); len(size) > len("4194304") || strings.ContainsAny(size, "odm") {
		t.Errorf("it has %q of a file of 16 MiB, want at most 4 MiB and nothing else", size)
	}
	other, _ := openIn(t, sandbox.Config{Workspace: t.TempDir()}, laidOver(t, dir, ""))
	const whole = ".: changed kept link removed sub  ./sub: file old\ngone\n"
	if _, out := shell(t, other, `cd `+at+` && ls -R | tr '\n' ' ' && cat changed removed`); out != whole {
		t.Errorf("another box sees %q", out)
	}
	for name, want := range map[string]string{"kept": "kept\n", "changed": "old\n", "removed": "gone\n", "sub/file": "in it\n"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); string(text) != want {
			t.Errorf("%s is %q now: %v", name, text, err)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 5 {
		t.Errorf("the tree has %v now, %v", all, err)
	}
}
