package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/sandbox"
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
	matches(t, "text", text, `\[and 280 more changes\]`)
}

func TestOnlyOverlaysTellWhatChanged(t *testing.T) {
	b := boxes(t, "")
	text, out := b.run("touch x", "changes", true)
	if len(out.Changes) > 0 || out.Set != "" || !strings.Contains(out.ChangesNote, "this one is not") {
		t.Errorf("got %v, %q, set %q", out.Changes, out.ChangesNote, out.Set)
	}
	matches(t, "text", text, `only known where the workspace is an overlay`)
}
