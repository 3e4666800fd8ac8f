package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
)

// TestExecWritten checks that a program counts as written by the box if it lies in the
// workspace, or in a directory to which the source of a writable mount is a link, and the box
// sees it among the system's programs.
func TestExecWritten(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tools, link := filepath.Join(dir, "tools"), filepath.Join(dir, "link")
	if err := os.Mkdir(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(tools, link); err != nil {
		t.Fatal(err)
	}
	g := policytest.GrantFor(t, `version: 1
defaults: {decision: deny, profile: p}
profiles:
  p: {exec: enforce, fs: {system: true, workspace: rw, write: ["`+link+`:/tools"], read: ["/usr/src/app/tools:/usr/local/bin", "/usr/src:/usr/share/src", "`+tools+`/bin:/usr/games", "/usr/srcs:/opt"]}}
rules:
  - {id: work, match: {command: ["git **", "true"]}, decision: allow}
`, policies.Facts{Tenant: "t", Tool: "Bash", Command: "true"})
	if got, want := writtenBy(g, "/usr/src/app"), slices.Sorted(slices.Values([]string{"/tools", "/usr/games", "/usr/local/bin", "/usr/share/src/app", "/usr/src/app", tools})); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	v := &execView{box: &Box{grant: g, home: &Workspace{sup: &Supervisor{}, dir: "/usr/src/app"}}}
	for _, jobs := range [][]*Job{nil, {{grant: g}}} {
		for _, name := range []string{"/usr/src/app/git", "/usr/local/bin/git", "/usr/share/src/app/git"} {
			call := policies.Exec{Path: name, Argv: []string{"git", "status"}}
			v.written = nil
			if d := v.decide(jobs, call, nil, nil); d.Verdict != policies.Allow {
				t.Fatalf("the control %s: %v by %s", name, d.Verdict, d.Rule)
			}
			v.written = writtenBy(g, v.box.home.dir)
			if d := v.decide(jobs, call, nil, nil); d.Verdict != policies.Deny {
				t.Errorf("the program %s of the workspace: %v by %s", name, d.Verdict, d.Rule)
			}
		}
	}
}
