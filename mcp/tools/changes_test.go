package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/sandbox"
	"belljar.dev/sandbox/workspace"
)

const overlayPolicy = `version: 1
defaults: {decision: allow, profile: over}
profiles:
  over:
    fs: {system: true, workspace: overlay}
`

func TestBashTellsWhatChanged(t *testing.T) {
	b := boxes(t, overlayPolicy)
	for name, text := range map[string]string{"changed": "old\n", "removed": "x\n", "mode": "x\n", "same": "x\n"} {
		if err := os.WriteFile(filepath.Join(b.workspace, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, out := b.run("mkdir before; touch before/x")
	if out.Changes != nil || out.ChangesNote != "" || out.Set == "" {
		t.Errorf("not asked: got %v, %q; set %q", out.Changes, out.ChangesNote, out.Set)
	}
	text, out := b.run("echo new >changed; rm removed; chmod 755 mode; cat same; mkdir dir; echo x >dir/file; rm before/x", "changes", true)
	want := []sandbox.Changed{
		{Path: "before/x", Kind: "deleted"},
		{Path: "changed", Kind: "modified"},
		{Path: "dir", Kind: "added"},
		{Path: "dir/file", Kind: "added"},
		{Path: "mode", Kind: "mode"},
		{Path: "removed", Kind: "deleted"},
	}
	if diff := cmp.Diff(want, out.Changes); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	matches(t, "text", text, `\[modified "changed"\]\n\[added "dir"\]`)
	text, out = b.run("cat changed", "changes", true)
	if len(out.Changes) > 0 {
		t.Errorf("got %v of a command that only reads", out.Changes)
	}
	matches(t, "text", text, `\[no file of the workspace changed\]`)
	text, out = b.run("for i in {1..300}; do touch many$i; done", "changes", true)
	if len(out.Changes) != 200 || out.ChangesMore != 100 {
		t.Errorf("got %d changes and %d more", len(out.Changes), out.ChangesMore)
	}
	matches(t, "text", text, `\[added "many1"\](\n\[added .*\]){199}\n\[and 100 more changes\]`)
}

func TestOnlyOverlaysTellWhatChanged(t *testing.T) {
	b := boxes(t, "")
	text, out := b.run("touch x", "changes", true)
	if len(out.Changes) > 0 || out.Set != "" || !strings.Contains(out.ChangesNote, "this workspace is not one") {
		t.Errorf("got %v, %q, set %q", out.Changes, out.ChangesNote, out.Set)
	}
	matches(t, "text", text, `only known in an overlay workspace`)
}

func TestBashMakesCheckpoints(t *testing.T) {
	b := boxes(t, overlayPolicy)
	if _, out := b.run("echo x >x"); out.Checkpoint != "" {
		t.Errorf("nobody asked for %q", out.Checkpoint)
	}
	b.shells.backends.Checkpoints = true
	other := boxes(t, "") // without an overlay there are no checkpoints
	other.shells.backends.Checkpoints = true
	if text, out := other.run("echo x >x"); out.Checkpoint+out.CheckpointNote != "" || strings.Contains(text, "checkpoint") {
		t.Errorf("got %q, %q", out.Checkpoint, text)
	}
	b.session = b.open()
	text, out := b.run("echo one >file", "description", "write one")
	if out.Checkpoint != "call-1" {
		t.Errorf("got %q, %q", out.Checkpoint, out.CheckpointNote)
	}
	matches(t, "text", text, `\[belljar exit=0 .* checkpoint=call-1`)
	if text, out := b.run("cat file; ls /"); out.Checkpoint != "" || strings.Contains(text, "checkpoint") {
		t.Errorf("a call that reads got %q", out.Checkpoint)
	}
	if _, out := b.run("rm file; exit 3"); out.Checkpoint != "call-2" {
		t.Errorf("got %q, %q", out.Checkpoint, out.CheckpointNote)
	}
	b.run("echo three >file; mkdir dir")
	set := out.Set
	b.session.Close()
	store, err := workspace.Open(filepath.Join(b.state, sandbox.WorkspacesDir))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	info, err := store.Info(set)
	if err != nil || len(info.Checkpoints) != 3 || info.Checkpoints[0].Note != "write one" || info.Checkpoints[1].Note != "rm file; exit 3" {
		t.Fatalf("%+v, %v", info, err)
	}
	if err := store.Rollback(set, "call-1"); err != nil {
		t.Fatal(err)
	}
	d, err := store.Changes(t.Context(), set)
	if err != nil || len(d.Changes) != 1 || d.Changes[0].Path != "file" || d.Changes[0].Size != 4 {
		t.Errorf("%+v, %v", d, err)
	}
}
