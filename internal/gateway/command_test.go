package gateway

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
)

// The program that is pinned is the program that the box finds, also if the entry sets
// PATH.
func TestProgramOfPATHIsPinned(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(self)
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"s": map[string]any{"command": name, "env": map[string]string{"PATH": "/usr/bin:/opt/test"}}}})
	if err != nil {
		t.Fatal(err)
	}
	g := &gated{t: t, workspace: t.TempDir(), files: t.TempDir()}
	g.use("", "")
	file := filepath.Join(g.files, "mcp.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	g.open(file)
	grant, err := g.policy.Load().Upstreams().Grant("local", policies.UpstreamBox{Server: "s", Trusted: true})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := digestFile(self, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := g.runs(g.setup().servers["s"], grant, ""); err != nil || got.File != name+" "+sum {
		t.Errorf("got the file %q, %v, want %q", got.File, err, name+" "+sum)
	}
}
