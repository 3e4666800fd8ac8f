package sandbox_test

import (
	"os"
	"path/filepath"
	"testing"

	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// TestSharedDirectories checks that every box with a workspace sees the shared directories,
// can read what only their owner may read, and cannot write to them.
func TestSharedDirectories(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "shared\n")
	if err := os.Chmod(filepath.Join(dir, "file"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := worldOf(t, sandbox.Config{Shared: []policies.Mount{
		{Source: dir, Target: "/skills/user", Writable: true}, // Writable is ignored
		{Source: filepath.Join(dir, "gone"), Target: "/skills/gone"},
	}})
	const script = "cat /skills/user/file; ls /skills; { echo x >/skills/user/x; echo x >/skills/user/file; rm /skills/user/file; } 2>/dev/null || echo no"
	for access, want := range map[string]string{"rw": "shared\nuser\nno\n", "ro": "shared\nuser\nno\n", "none": "no\n"} {
		b, err := s.Open(t.Context(), access, policytest.GrantProfile(t, "fs: {system: true, workspace: "+access+"}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, text := shell(t, b, "exec 2>/dev/null; "+script); text != want {
			t.Errorf("with the workspace %s a box shows %q, want %q", access, text, want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(text) != "shared\n" {
		t.Errorf("afterwards the file is %q, %v", text, err)
	}
}
