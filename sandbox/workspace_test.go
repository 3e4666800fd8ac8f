package sandbox_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// TestWorkspacesOfOneSupervisor checks that a supervisor can open boxes of many workspaces,
// and that each box sees and changes only the files of its own workspace, in every mode.
func TestWorkspacesOfOneSupervisor(t *testing.T) {
	s, first := worldOf(t, sandbox.Config{State: filepath.Join(t.TempDir(), "state")})
	dirs := []string{first, t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		write(t, filepath.Join(dir, "mine"), string(rune('a'+i)))
		if err := os.MkdirAll(filepath.Join(dir, ".git/hooks"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []string{"rw", "ro", "overlay"} {
		g := policytest.GrantProfile(t, "fs: {system: true, workspace: "+mode+"}")
		for i, dir := range dirs {
			w, err := s.Workspace(dir)
			if err != nil {
				t.Fatal(err)
			}
			b, err := w.Open(t.Context(), mode+string(rune('a'+i)), g)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.Boxes(); len(got) != 1 || got[0] != b {
				t.Errorf("%s: the boxes of workspace %d are %v, want its own", mode, i, got)
			}
			t.Cleanup(func() { b.Close() })
			want := string(rune('a' + i))
			if _, got := shell(t, b, "cat mine; { echo x > made-"+mode+"; } 2>/dev/null; { echo x > .git/hooks/pre-commit; } 2>/dev/null"); got[:1] != want {
				t.Errorf("%s: a box of workspace %d reads %q, want %q", mode, i, got, want)
			}
			for j, other := range dirs {
				_, err := os.Stat(filepath.Join(other, "made-"+mode))
				if made := err == nil; made != (mode == "rw" && j <= i) {
					t.Errorf("%s: after box %d, workspace %d has its file: %v", mode, i, j, made)
				}
				if _, err := os.Stat(filepath.Join(other, ".git/hooks/pre-commit")); err == nil {
					t.Errorf("%s: a hook was written in workspace %d", mode, j)
				}
			}
			f, err := w.OpenFile(g, "/workspace/mine")
			if err != nil {
				t.Fatalf("%s: the file of workspace %d: %v", mode, i, err)
			}
			got := make([]byte, 1)
			if _, err := f.Read(got); err != nil || string(got) != want {
				t.Errorf("%s: the file of workspace %d is %q, %v; want %q", mode, i, got, err, want)
			}
			f.Close()
		}
		for _, b := range s.Boxes() {
			b.Close()
		}
	}
}

// TestWorkspaceOfADirectory checks that a directory has one Workspace, however its path is
// written, and that a path is refused if it does not exist or is a file.
func TestWorkspaceOfADirectory(t *testing.T) {
	s, first := world(t)
	w, err := s.Workspace(first + "/")
	if err != nil || w != s.Home() {
		t.Errorf("the workspace of Config is %p, %v; want %p", w, err, s.Home())
	}
	write(t, filepath.Join(first, "file"), "")
	for _, dir := range []string{filepath.Join(first, "gone"), filepath.Join(first, "file")} {
		if _, err := s.Workspace(dir); err == nil {
			t.Errorf("%s is a workspace", dir)
		}
	}
	s.Close()
	if _, err := s.Workspace(t.TempDir()); err == nil {
		t.Error("a closed supervisor has another workspace")
	}
}

// TestRegrantOfOneWorkspace checks that a policy holds for the boxes of the workspace that
// it is given to, and not for those of another workspace.
func TestRegrantOfOneWorkspace(t *testing.T) {
	s, first := world(t)
	g := policytest.GrantProfile(t, "fs: {system: true, workspace: ro}\npublish: [3000]")
	less, err := policies.Parse("p", []byte("version: 1\ndefaults: {decision: allow}\nprofiles:\n  test: {fs: {system: true, workspace: ro}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var boxes []*sandbox.Box
	for i, dir := range []string{first, t.TempDir()} {
		w, err := s.Workspace(dir)
		if err != nil {
			t.Fatal(err)
		}
		b, err := w.Open(t.Context(), string(rune('a'+i)), g)
		if err != nil {
			t.Fatal(err)
		}
		boxes = append(boxes, b)
		if _, err := b.Publish(t.Context(), 3000, netip.MustParseAddrPort("127.0.0.1:0")); err != nil {
			t.Fatal(err)
		}
	}
	s.Regrant(t.Context(), less)
	if n := len(boxes[0].Published()); n != 0 {
		t.Errorf("the box of the workspace still publishes %d ports", n)
	}
	if n := len(boxes[1].Published()); n != 1 {
		t.Errorf("the box of another workspace publishes %d ports, want its one", n)
	}
}

// TestWorkspaceCloses checks that a directory which is removed and made again is another
// workspace: its boxes see and protect the new content. While a box is open, the workspace
// stays.
func TestWorkspaceCloses(t *testing.T) {
	s, _ := world(t)
	g := policytest.GrantProfile(t, "fs: {system: true, workspace: rw}")
	dir := filepath.Join(t.TempDir(), "place")
	var before *sandbox.Workspace
	for round, want := range []string{"a", "b"} {
		if err := os.MkdirAll(filepath.Join(dir, ".git/hooks"), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "mine"), want)
		w, err := s.Workspace(dir)
		if err != nil || w == before {
			t.Fatalf("round %d: %v, the same workspace: %v", round, err, w == before)
		}
		before = w
		b, err := w.Open(t.Context(), "box-"+want, g)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := shell(t, b, "cat mine; { echo x > .git/hooks/pre-commit; } 2>/dev/null"); got[:1] != want {
			t.Errorf("round %d: a box reads %q, want %q", round, got, want)
		}
		if _, err := os.Stat(filepath.Join(dir, ".git/hooks/pre-commit")); err == nil {
			t.Errorf("round %d: a hook was written", round)
		}
		if err := w.Close(); err == nil {
			t.Error("a workspace with a box closes")
		}
		b.Close()
		for range 2 {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}
