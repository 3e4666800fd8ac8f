package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies/policytest"
)

// A box's init pins the protected paths of a workspace, and the supervisor reverts what
// appeared there. The tests of package protect check the rules one by one.
func TestProtectedWorkspace(t *testing.T) {
	s, dir := world(t)
	for _, d := range []string{".git/hooks", ".vscode"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, ".git/config"), "[core]\n\tbare = false\n")
	g := grant(t)
	b, err := s.Open(t.Context(), "box", g)
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{
		"echo x > .git/hooks/pre-commit", "echo x >> .git/config", "mv .git .g2", "rm -rf .git/hooks", "mv .git/config x",
		"echo '{}' > .vscode/tasks.json", "rm -r .vscode", "ln -sf /tmp .git/hooks", "umount .git", "truncate -s 0 .git/config",
	} {
		if r, out := shell(t, b, "("+script+") 2>/dev/null && echo done"); strings.Contains(out, "done") || len(r.Reverted) > 0 {
			t.Errorf("%s: got %q, reverted %v; want a refusal", script, out, r.Reverted)
		}
	}
	if r, out := shell(t, b, "echo 'ref: refs/heads/x' > .git/HEAD && mkdir -p .git/objects && echo done"); out != "done\n" {
		t.Errorf("git's own work: got %q, code %d", out, r.Code)
	}
	r, _ := shell(t, b, "echo 'rm -rf ~' > .envrc; mkdir -p .claude && echo x > .claude/settings.json; echo x > CLAUDE.md")
	if len(r.Reverted) != 2 {
		t.Errorf("reverted %v, want .envrc and .claude", r.Reverted)
	}
	for name, want := range map[string]bool{".envrc": false, ".claude": false, "CLAUDE.md": true, ".git/config": true} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v, want there: %v", name, err, want)
		}
	}
}

// A profile may leave the workspace unprotected.
func TestUnprotectedWorkspace(t *testing.T) {
	b, dir := openBox(t, policytest.GrantProfile(t, "fs: {system: true, workspace: rw, protect: none}"))
	if r, _ := shell(t, b, "echo x > .envrc"); r.Code != 0 || len(r.Reverted) != 0 {
		t.Errorf("got code %d, reverted %v", r.Code, r.Reverted)
	}
	if _, err := os.Stat(filepath.Join(dir, ".envrc")); err != nil {
		t.Error(err)
	}
}

// A profile may have its storage on disk, with the same bounds.
func TestStorageOnDisk(t *testing.T) {
	testenv.Need(t, testenv.Root)
	b, _ := openBox(t, policytest.GrantProfile(t, "fs: {system: true, workspace: rw, storage: disk}\nlimits: {tmp: 64MiB, tmp_files: 500}"))
	_, out := shell(t, b, lines(
		"test $(stat -fc %T /tmp) = tmpfs || echo on disk",
		"head -c 200M /dev/zero > /tmp/big 2>&1; test $(stat -c %s /tmp/big) -lt 70000000 && echo bytes held; rm -f /tmp/big",
		"for i in $(seq 1000); do : > /tmp/$i; done 2>/dev/null; test $(ls /tmp | wc -l) -lt 600 && echo files held",
		"touch ~/x /dev/shm/x 2>/dev/null || echo and everywhere",
		"echo x > /tmp/1 2>/dev/null; echo still here",
	))
	for _, want := range []string{"on disk", "bytes held", "files held", "and everywhere", "still here"} {
		if !strings.Contains(out, want) {
			t.Errorf("got %q, want %q in it", out, want)
		}
	}
}
