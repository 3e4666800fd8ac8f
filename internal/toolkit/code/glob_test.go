package code

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		dir, want     bool
	}{
		{"*.go", "a.go", false, true},
		{"*.go", "a/b/c.go", false, true},
		{"*.go", "a.gob", false, false},
		{"a/*.go", "a/b.go", false, true},
		{"a/*.go", "a/b/c.go", false, false},
		{"/a.go", "a.go", false, true},
		{"/a.go", "b/a.go", false, false},
		{"**/a.go", "a.go", false, true},
		{"**/a.go", "b/c/a.go", false, true},
		{"a/**", "a/b", false, true},
		{"a/**", "a/b/c", false, true},
		{"a/**", "a", true, false},
		{"a/**/b", "a/b", false, true},
		{"a/**/b", "a/x/y/b", false, true},
		{"a/**/b", "a/x/y/c", false, false},
		{"a/**/b/**/c", "a/b/x/b/c", false, true},
		{"a/**/b/*/c", "a/b/b/x/c", false, true},
		{"**", "a/b", false, true},
		{"a/", "a", true, true},
		{"a/", "a", false, false},
		{"[ab].c", "b.c", false, true},
		{"[!ab].c", "b.c", false, false},
		{"[^ab].c", "c.c", false, true},
		{"[]a].c", "].c", false, true},
		{"[a-c]?", "bz", false, true},
		{"[[:digit:]_]x", "7x", false, true},
		{"[[:digit:]_]x", "ax", false, false},
		{`\*`, "*", false, true},
		{`\*`, "a", false, false},
		{`[\]]`, "]", false, true},
		{"a*b*c", "axxbxbxc", false, true},
		{"a*b*c", "axxbxbx", false, false},
		{"*", "\xff\n", false, true},
		{strings.Repeat("*a", 400), strings.Repeat("a", 255), false, false},
	} {
		g, err := newGlob(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if got := g.match(c.path, c.dir); got != c.want {
			t.Errorf("%q on %q, directory %v: got %v, want %v", c.pattern, c.path, c.dir, got, c.want)
		}
	}
}

func TestGlobRefuses(t *testing.T) {
	for pattern, want := range map[string]string{
		"[":                       `include: pattern "[": a bracket is not closed`,
		"a/[b":                    `include: pattern "a/[b": a bracket is not closed`,
		`a\`:                      `include: pattern "a\\": nothing follows its last backslash`,
		"":                        `include: pattern "" is empty`,
		"/":                       `include: pattern "/" is empty`,
		"[[:alpha:":               `include: pattern "[[:alpha:": a bracket is not closed`,
		strings.Repeat("a", 1001): `include: pattern "` + strings.Repeat("a", 40) + `"... is longer than 1000 bytes`,
	} {
		if _, err := newGlobs("include", []string{"*.go", pattern}); err == nil || err.Error() != want {
			t.Errorf("%.50q: got %v, want %s", pattern, err, want)
		}
	}
	if _, err := newGlobs("exclude", make([]string, 257)); err == nil || err.Error() != "exclude: 257 patterns; at most 256 are allowed" {
		t.Errorf("257 patterns: got %v", err)
	}
}

// TestIgnoreAsGitDoes checks that git ignores the same paths with the same ignore files.
func TestIgnoreAsGitDoes(t *testing.T) {
	testenv.Need(t, testenv.Git)
	files := map[string]string{
		".gitignore":        "*.log\n!keep.log\n/build\nout/\n# c\n\\#x\ntrail \nesc\\ \na/**/z\n**/deep\ndoc/*.txt\n[\n[[:upper:]]*\nq?\n!\n\r\ncrlf\r\n/only/at/top\n\\!bang\n*.tmp/\n",
		"sub/.gitignore":    "!x.log\n/here\nmore\n*.go\n!/a.go\n",
		"sub/in/.gitignore": "*\n!*.md\n",
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	paths := []string{
		"a.log", "keep.log", "x/keep.log", "build", "x/build", "out", "x/out/f", "#x", "trail", "trail ", "esc", "esc ", "a/z", "a/b/c/z", "deep", "q/deep",
		"doc/a.txt", "doc/b/a.txt", "[", "Upper", "lower", "q1", "q", "crlf", "only/at/top", "x/only/at/top", "!bang", "bang", "f.tmp", "d.tmp/f",
		"sub/x.log", "sub/y.log", "sub/here", "sub/k/here", "sub/k/more", "sub/a.go", "sub/k/a.go", "sub/in/a", "sub/in/a.md", "sub/in/d/a.md", "new\nline.log",
	}
	run := exec.CommandContext(t.Context(), "git", "init", "-q", dir)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	check := exec.CommandContext(t.Context(), "git", "-C", dir, "check-ignore", "--no-index", "-z", "--stdin")
	check.Stdin = strings.NewReader(strings.Join(paths, "\x00"))
	out, err := check.Output()
	if err != nil {
		t.Fatal(err)
	}
	ignored := make(map[string]bool)
	for p := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		ignored[p] = true
	}
	for _, p := range paths {
		if got := ignoredBy(files, p); got != ignored[p] {
			t.Errorf("%q: got %v, git says %v", p, got, ignored[p])
		}
	}
	if len(ignored) < 15 {
		t.Errorf("git ignores %d of them, want at least 15", len(ignored))
	}
}

// ignoredBy reports whether a path is ignored. It walks down to the path as the walk over a
// tree does.
func ignoredBy(files map[string]string, file string) bool {
	var ig *ignores
	for i := 0; ; {
		if text, ok := files[file[:i]+".gitignore"]; ok {
			ig, _ = ig.with(file[:i], text)
		}
		slash := strings.IndexByte(file[i:], '/')
		if slash < 0 {
			return ig.match(file, false)
		}
		if ig.match(file[:i+slash], true) {
			return true
		}
		i += slash + 1
	}
}
