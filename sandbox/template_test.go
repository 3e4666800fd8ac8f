package sandbox_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// TestTemplateLooksTheSame checks that a box looks the same whether its root comes from a
// shared template or was made for this box alone.
func TestTemplateLooksTheSame(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "within"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "file"), "text")
	if err := os.Chmod(filepath.Join(dir, "file"), 0o644); err != nil {
		t.Fatal(err)
	}
	// One mount lies within another, and a third is mounted on a file.
	g := policytest.GrantProfile(t, lines(
		"fs: {system: true, workspace: rw, read: ["+dir+":/opt/a, "+dir+":/opt/a/within, "+filepath.Join(dir, "file")+":/etc/deep/name]}",
		"limits: {tmp: 8MiB}"))
	const script = `cd / && find . -xdev ! -path './run/*' | sort; find /etc /opt /dev /home /run -xdev -printf '%p %y %m %l\n' | sort
		cat /etc/passwd /etc/group /etc/hosts /etc/nsswitch.conf /etc/deep/name; ls /opt/a/within; hostname
		for f in / /etc /opt /dev/empty; do touch $f/x 2>&1 | sed 's/.*: //'; done; echo x > /tmp/x && cat /tmp/x`
	var texts []string
	for _, templates := range []bool{true, false} {
		s, _ := worldOf(t, sandbox.Config{})
		if !templates {
			s.NoTemplates()
		}
		b, err := s.Open(t.Context(), "box", g)
		if err != nil {
			t.Fatal(err)
		}
		_, text := shell(t, b, script)
		texts = append(texts, text)
		if n := s.Templates(); n > 0 && !templates {
			t.Errorf("%d templates, want none", n)
		}
	}
	if texts[0] != texts[1] {
		t.Errorf("with a template:\n%s\nwithout:\n%s", texts[0], texts[1])
	}
	if !strings.Contains(texts[0], "belljar") || !strings.Contains(texts[0], "text") || !strings.HasSuffix(texts[0], "\nx\n") {
		t.Errorf("a box shows:\n%s", texts[0])
	}
}

// TestTemplateIsShared checks that boxes share the parts of the root that no box can write,
// and nothing else.
func TestTemplateIsShared(t *testing.T) {
	s, _ := worldOf(t, sandbox.Config{})
	const script = "stat -c %d:%i / /etc/passwd /dev/empty; echo; stat -c %d /tmp /run /home/agent /dev/shm /dev/pts"
	var seen [2][]string
	for i, tenant := range []string{"one", "two"} {
		b, err := s.Open(t.Context(), tenant, grant(t))
		if err != nil {
			t.Fatal(err)
		}
		_, text := shell(t, b, script)
		seen[i] = strings.Split(text, "\n\n")
	}
	able := slices.ContainsFunc(sandbox.Examine("").Checks, func(c sandbox.Check) bool {
		return c.Name == "mounts" && !strings.Contains(c.Detail, "Linux 6.15")
	})
	if !able && s.Templates() == 0 {
		return
	}
	if seen[0][0] != seen[1][0] || s.Templates() != 1 {
		t.Errorf("%d templates; one box has %q, the other %q, want the same", s.Templates(), seen[0][0], seen[1][0])
	}
	for i, device := range strings.Fields(seen[0][1]) {
		if strings.Fields(seen[1][1])[i] == device {
			t.Errorf("file system %d of two boxes is the same: %q and %q", i, seen[0][1], seen[1][1])
		}
	}
}
