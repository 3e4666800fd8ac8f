package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/workspace"
)

func overlayGrant(t testing.TB) policies.Grant {
	t.Helper()
	return policytest.GrantProfile(t, "fs: {system: true, workspace: overlay}")
}

// overlaid is a supervisor over a workspace of a strange name, with a state
// directory.
func overlaid(t testing.TB) (s *sandbox.Supervisor, dir, state string) {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	state = filepath.Join(t.TempDir(), "state")
	dir = filepath.Join(t.TempDir(), "a:b, c\\d=e")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := sandbox.New(sandbox.Config{Workspace: dir, State: state})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s, dir, state
}

// changes are those of the set of a box, as "kind path".
func changes(t testing.TB, state, box, dir string) []string {
	t.Helper()
	store, err := workspace.Open(filepath.Join(state, sandbox.WorkspacesDir))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	d, err := store.Changes(t.Context(), sandbox.SetID(box, dir))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range d.Changes {
		all = append(all, string(c.Kind)+" "+c.Path)
	}
	return all
}

func TestOverlayKeepsTheWorkspace(t *testing.T) {
	s, dir, state := overlaid(t)
	write(t, dir+"/kept", "kept\n")
	write(t, dir+"/changed", "old\n")
	write(t, dir+"/removed", "gone\n")
	b, err := s.Open(t.Context(), "box", overlayGrant(t))
	if err != nil {
		t.Fatal(err)
	}
	r, out := shell(t, b, lines(
		"set -e", "cat changed", "echo new > changed", "rm removed", "mkdir -p sub/dir", "echo x > sub/dir/file",
		"mkdir .git", "echo evil > .git/config", "touch kept2", "cat changed", "id -u; stat -c '%u %a' . changed sub",
	))
	if want := "old\nnew\n1000\n"; r.Code != 0 || !strings.HasPrefix(out, want) {
		t.Fatalf("got %d, %q; want %q", r.Code, out, want)
	}
	t.Log(out)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("the workspace has %v, %v", entries, err)
	}
	want := []string{"added .git", "added .git/config", "modified changed", "added kept2", "deleted removed", "added sub", "added sub/dir", "added sub/dir/file"}
	if diff := cmp.Diff(want, changes(t, state, "box", dir)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	// The same set serves the next box of that name.
	if b, err = s.Open(t.Context(), "box", overlayGrant(t)); err != nil {
		t.Fatal(err)
	}
	if r, out := shell(t, b, "cat changed sub/dir/file; ls removed"); r.Code == 0 || !strings.HasPrefix(out, "new\nx\n") {
		t.Errorf("the second box: %d, %q", r.Code, out)
	}
}
