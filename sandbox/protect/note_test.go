package protect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"belljar.dev/internal/printable"
)

// What the operator is told is one line for each remark, whatever names a box has chosen.
func TestRemarksAreLines(t *testing.T) {
	const evil = "evil\n\x1b[2J\u202e"
	p, _ := guarded(t, func(dir string) {
		at := filepath.Join(dir, evil, ".git")
		put(t, filepath.Join(at, "HEAD"), "ref: refs/heads/main\n")
		put(t, filepath.Join(at, "config"), "[core]\n\thooksPath = ..\n[include \"\x1b[2J\"]\n\tpath = a/b\n[alias \"\x1b[2J\"]\n\tx = !a/b\n\x01")
		must(t, os.MkdirAll(filepath.Join(at, "objects"), 0o755))
		must(t, os.MkdirAll(filepath.Join(at, "refs"), 0o755))
	})
	all := p.Remarks()
	if len(all) != 4 {
		t.Errorf("got %d remarks, want 4: %q", len(all), all)
	}
	var f findings
	f.fail(evil, errBound)
	for _, line := range append(all, f.errs[0].Error()) {
		if strings.ContainsFunc(line, func(r rune) bool { return !printable.InLine(r) }) {
			t.Errorf("got %q, want one line", line)
		}
	}
}

// A name that a box chose cannot hide in a message, reverse its direction, or end the code
// in which it is quoted.
func TestPlainNames(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		want := string(r)
		if !utf8.ValidRune(r) {
			continue
		}
		if r == '`' || !printable.Rune(r) {
			want = "?"
		}
		if got := plain("a" + string(r) + "b"); got != "a"+want+"b" {
			t.Errorf("%U is shown as %q", r, got)
		}
	}
}
