package sandbox_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/protect"
	"belljar.dev/sandbox/workspace"
)

func overlayGrant(t testing.TB) policies.Grant {
	t.Helper()
	return policytest.GrantProfile(t, "fs: {system: true, workspace: overlay}")
}

// overlaid returns a supervisor over a workspace with a strange name, and with a state
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

// changes returns the changes in the set of a box, as "kind path".
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
	// The next box of that name has the same set.
	if b, err = s.Open(t.Context(), "box", overlayGrant(t)); err != nil {
		t.Fatal(err)
	}
	if r, out := shell(t, b, "cat changed sub/dir/file; ls removed 2>&1"); r.Code == 0 || !strings.HasPrefix(out, "new\nx\n") {
		t.Errorf("the second box: %d, %q", r.Code, out)
	}
}

// A command is a use of the set, so that prune keeps the set also if belljar is killed and
// the box never closed.
func TestCommandsUseTheSet(t *testing.T) {
	s, dir, state := overlaid(t)
	b, err := s.Open(t.Context(), "box", overlayGrant(t))
	if err != nil {
		t.Fatal(err)
	}
	store, err := workspace.Open(filepath.Join(state, sandbox.WorkspacesDir))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	id, past := sandbox.SetID("box", dir), time.Now().Add(-800*time.Hour)
	if err := os.Chtimes(filepath.Join(state, sandbox.WorkspacesDir, "sets", id, "set.json"), past, past); err != nil {
		t.Fatal(err)
	}
	shell(t, b, "echo x >file")
	if info, err := store.Info(id); err != nil || time.Since(info.Used) > time.Hour {
		t.Errorf("used %s ago, %v", time.Since(info.Used), err)
	}
}

// listing prints a tree: type, permissions, path, target or content.
const listing = `find . -mindepth 1 -printf '%y %m\t%P\t%l\n' | LC_ALL=C sort; find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r md5sum`

// randomScript returns a script of commands that change files. The same seed gives the same
// script.
func randomScript(r *rand.Rand, steps int) string {
	dirs := []string{"a", "a/b", "a/b/c", "d", "d/e", "f"}
	names := []string{"x", "y", "z", "long name", "b"}
	path := func() string {
		return "'" + dirs[r.IntN(len(dirs))] + "/" + names[r.IntN(len(names))] + "'"
	}
	var b strings.Builder
	b.WriteString("mkdir -p " + strings.Join(dirs, " ") + "\n")
	for range steps {
		p, q, dir := path(), path(), dirs[r.IntN(len(dirs))]
		fmt.Fprintln(&b, []string{
			"mkdir -p " + dir, "rm -rf " + dir, "rm -rf " + dir + "; mkdir -p " + dir + "; echo again > " + dir + "/x",
			fmt.Sprintf("echo %d > %s", r.IntN(1000), p), fmt.Sprintf("echo %d >> %s", r.IntN(1000), p), "rm -f " + p, "mv " + p + " " + q,
			"ln -s " + q + " " + p, fmt.Sprintf("chmod %o %s", 0o700+r.IntN(0o100)&^0o7+4, p), "cp -r " + dir + " " + q, "ln " + p + " " + q, "mv " + dir + " f/" + strconv.Itoa(r.IntN(5)),
			"truncate -s 100000 " + p, "touch " + p, "cat " + p,
		}[r.IntN(15)])
	}
	return "{\n" + b.String() + "} 2>/dev/null\ntrue"
}

// entries reads a listing: by path, the rest of its line.
func entries(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		if sum, path, ok := strings.Cut(line, "  ./"); ok && len(sum) == 32 {
			all[path] += " " + sum
			continue
		}
		if parts := strings.Split(line, "\t"); len(parts) == 3 {
			all[parts[1]] = parts[0] + " " + parts[2]
		}
	}
	return all
}

// Whatever a box does, the changes are the difference between what it sees and the
// workspace. After they were applied, the workspace is what the box sees.
func TestOverlayTellsAllThatChanged(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { tellsAll(t, rand.New(rand.NewPCG(seed, 7))) })
	}
}

func tellsAll(t *testing.T, r *rand.Rand) {
	s, dir, state := overlaid(t)
	host := func(script string) string {
		c := exec.CommandContext(t.Context(), "bash", "-c", script)
		c.Dir = dir
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	host("umask 022; mkdir -p a/b/c d/e f\n" + randomScript(r, 80))
	before := entries(host(listing))
	b, err := s.Open(t.Context(), "box", overlayGrant(t))
	if err != nil {
		t.Fatal(err)
	}
	store, err := workspace.Open(filepath.Join(state, sandbox.WorkspacesDir))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	set := b.Set()
	seen := before
	for round := range 4 {
		w, err := b.Watch()
		if err != nil {
			t.Fatal(err)
		}
		script := randomScript(r, 25)
		shell(t, b, script)
		_, text := shell(t, b, listing)
		now := entries(text)
		changed, more, err := w.Changed(100_000)
		if err != nil || more > 0 {
			t.Fatalf("%d more, %v", more, err)
		}
		got := map[string]bool{}
		for _, c := range changed {
			got[c.Path] = true
		}
		if missed := slices.DeleteFunc(differ(seen, now), func(path string) bool { return covered(got, path) }); len(missed) > 0 {
			for _, path := range missed {
				t.Errorf("round %d: nothing is told of %s, which was %q and is %q, after\n%s", round, path, seen[path], now[path], script)
			}
		}
		seen = now
		if round == 1 {
			if err := store.Checkpoint(set, "live"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.Checkpoint(set, "end"); err != nil {
		t.Fatal(err)
	}
	d, err := store.Changes(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range d.Changes {
		if c := &d.Changes[i]; c.Kind != workspace.Touched {
			got = append(got, c.Path)
		}
		if c := &d.Changes[i]; c.Conflict+c.Problem != "" {
			t.Errorf("%s: %s%s", c.Path, c.Conflict, c.Problem)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(differ(before, seen), got); diff != "" {
		t.Errorf("differs (-), told (+):\n%s", diff)
	}
	if len(got) == 0 {
		t.Error("nothing changed: the test proves nothing")
	}
	report, err := store.Apply(t.Context(), set, workspace.Options{Protected: true})
	if err != nil || len(report.Skipped)+len(report.Conflicts) > 0 {
		t.Fatalf("%+v, %+v, %v", report.Skipped, report.Conflicts, err)
	}
	if diff := cmp.Diff(seen, entries(host(listing))); diff != "" {
		t.Errorf("in the box (-), applied (+):\n%s", diff)
	}
}

// differ returns the paths in which two listings differ, sorted.
func differ(a, b map[string]string) []string {
	var paths []string
	for path, was := range a {
		if b[path] != was {
			paths = append(paths, path)
		}
	}
	for path := range b {
		if _, ok := a[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// covered reports whether a path, or a directory above it, was reported.
func covered(told map[string]bool, path string) bool {
	for ; path != "."; path = filepath.Dir(path) {
		if told[path] {
			return true
		}
	}
	return false
}

// The files that a box makes belong to the owner of the workspace, whichever tenant the box
// belongs to.
func TestOverlayKeepsTheOwner(t *testing.T) {
	testenv.Need(t, testenv.Root)
	s, dir, state := overlaid(t)
	write(t, dir+"/file", "old\n")
	const owner = 4321
	for _, path := range []string{dir, dir + "/file"} {
		if err := os.Chown(path, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	store, err := workspace.Open(filepath.Join(state, sandbox.WorkspacesDir))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, tenant := range []string{"one", "two"} { // boxes of two tenants run as two users of the host
		policy := "version: 1\ndefaults: {decision: allow, profile: p}\nprofiles:\n  p:\n    fs: {system: true, workspace: overlay}\n"
		b, err := s.Open(t.Context(), "box-"+tenant, policytest.GrantFor(t, policy, policies.Facts{Tenant: tenant, Tool: "Bash", Command: "true"}))
		if err != nil {
			t.Fatal(err)
		}
		if r, out := shell(t, b, "echo x >>file; mkdir -p dir; touch dir/"+tenant+"; ln -sf x link; stat -c %u file dir/"+tenant+" link | sort -u"); r.Code != 0 || out != "1000\n" {
			t.Errorf("tenant %s: %d, %q", tenant, r.Code, out)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := store.Apply(t.Context(), sandbox.SetID("box-"+tenant, dir), workspace.Options{Guard: protect.Changes})
		if err != nil || !r.Emptied {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	for _, path := range []string{"file", "dir", "dir/one", "dir/two", "link"} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, path), &st); err != nil || st.Uid != owner || st.Gid != owner {
			t.Errorf("%s belongs to %d:%d, %v", path, st.Uid, st.Gid, err)
		}
	}
}

// A change of a protected path is held back, wherever the path is.
func TestApplyGuardsWhatRuns(t *testing.T) {
	s, dir, state := overlaid(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(dir+"/.git/hooks", 0o755))
	write(t, dir+"/.git/config", "[core]\n\thooksPath = tools/hooks\n")
	write(t, dir+"/.git/HEAD", "ref: refs/heads/main\n")
	must(os.MkdirAll(dir+"/tools/hooks", 0o755))
	b, err := s.Open(t.Context(), "box", policytest.GrantProfile(t, "fs: {system: true, workspace: overlay, protect: [deploy.sh]}"))
	must(err)
	protected := []string{
		".git/config", ".git/hooks/pre-commit", ".git/modules/x/config", ".git/worktrees/x/commondir", "tools/hooks/pre-push", ".vscode/tasks.json", ".envrc",
		"sub/.git/config", "deep/er/.git/hooks/x", "other/.git", "bare/config", "bare/hooks/x", "deploy.sh",
	}
	free := []string{".git/index", ".git/objects/ab/cd", ".git/refs/heads/x", "tools/x", "config", "sub/.git/HEAD", "bare/HEAD", "sub/.vscode/x"}
	script := "set -e\n"
	for _, path := range append(slices.Clone(protected), free...) {
		script += "mkdir -p $(dirname " + path + "); echo x > " + path + "\n"
	}
	if r, out := shell(t, b, script); r.Code != 0 {
		t.Fatal(out)
	}
	must(b.Close())
	store, err := workspace.Open(filepath.Join(state, sandbox.WorkspacesDir))
	must(err)
	defer store.Close()
	r, err := store.Apply(t.Context(), sandbox.SetID("box", dir), workspace.Options{Guard: protect.Changes})
	must(err)
	skipped := map[string]bool{}
	for _, c := range r.Skipped {
		skipped[c.Path] = true
	}
	for _, path := range protected {
		if !skipped[path] {
			t.Errorf("%s was applied", path)
		}
	}
	for _, path := range free {
		if text, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(text) != "x\n" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}

func BenchmarkOpenOverlay(b *testing.B) {
	for _, c := range []struct {
		name  string
		grant policies.Grant
	}{{"overlay", overlayGrant(b)}, {"bind", policytest.GrantProfile(b, "fs: {system: true, workspace: rw}")}} {
		b.Run(c.name, func(b *testing.B) {
			s, _, _ := overlaid(b)
			for b.Loop() {
				box, err := s.Open(b.Context(), "box", c.grant)
				if err != nil {
					b.Fatal(err)
				}
				if err := box.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
