package console

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox/workspace"
)

// changedSet makes a set that changes files of a workspace.
func changedSet(t testing.TB, dir, base string, files map[string]string) {
	t.Helper()
	s, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.Use("s-one", "local", base, workspace.Protect{})
	if err != nil {
		t.Fatal(err)
	}
	l.Settle()
	for name, text := range files {
		write(t, fmt.Sprintf("/proc/self/fd/%d/upper/%s", l.Top.Fd(), name), text)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// changesOf is the answer with the changes of a set.
type changesOf struct {
	Digest string
	Files  []struct{ Path, Kind, Refused string }
}

// Only the changes that a person has seen are applied: WC19, WC-A20.
func TestWorkspaces(t *testing.T) {
	dir, base := filepath.Join(t.TempDir(), "sets"), t.TempDir()
	g := start(t, func(_ *rig, v *Views) { v.SetsDir = dir })
	token := g.login(Operator)
	if got := g.send("GET", "api/v1/workspaces", token, nil); string(got.body) != "[]\n" {
		t.Errorf("before a box has made a set: %s", got.body)
	}
	write(t, base+"/old.txt", "one\ntwo\n")
	changedSet(t, dir, base, map[string]string{
		"old.txt": "one\nthree\n\x1b[31m\u202e\n", "new/a*b": "x\n", "new/ab": "y\n", ".git/hooks/pre-commit": "#!/bin/sh\n", "bin": "a\x00b",
	})
	var sets []struct {
		Name    string
		Changes *int
		Command string
	}
	g.send("GET", "api/v1/workspaces", token, nil).into(t, &sets)
	if len(sets) != 1 || sets[0].Name != "s-one" || sets[0].Changes == nil || sets[0].Command != "belljar workspace diff s-one" {
		t.Fatalf("got %+v", sets)
	}
	path := "api/v1/workspaces/s-one/"
	var is changesOf
	g.send("GET", path+"changes", token, nil).into(t, &is)
	refused := ""
	for _, f := range is.Files {
		if f.Refused != "" {
			refused += f.Path + " "
		}
	}
	if is.Digest == "" || !strings.Contains(refused, ".git/hooks/pre-commit") || strings.Contains(refused, "old.txt") {
		t.Errorf("refused: %s; got %+v", refused, is)
	}
	var diff struct {
		Lines  []diffLine
		Cut    bool
		Binary bool
	}
	g.send("GET", path+"diff?path=old.txt", token, nil).into(t, &diff)
	if len(diff.Lines) != 5 || diff.Lines[0].Kind != "@" || diff.Lines[2] != (diffLine{"-", "two"}) || diff.Lines[4] != (diffLine{"+", `\x1b[31m\u{202e}`}) || diff.Cut {
		t.Errorf("got %+v", diff)
	}
	g.send("GET", path+"diff?path=bin", token, nil).into(t, &diff)
	if !diff.Binary {
		t.Errorf("a binary file: %+v", diff)
	}
	post := func(what string, body any, want int) string {
		t.Helper()
		got := g.send("POST", path+what, token, body)
		if got.status != want {
			t.Errorf("%s %v: got %d %s, want %d", what, body, got.status, got.body, want)
		}
		return string(got.body)
	}
	all := func(paths ...string) map[string]any { return map[string]any{"paths": paths, "digest": is.Digest} }
	post("apply", map[string]any{"paths": []string{"old.txt"}}, 400)
	post("apply", map[string]any{"digest": "other"}, 409)
	post("apply", all("../../x"), 409)
	post("apply", all("/etc/passwd"), 409)
	post("apply", all(""), 400)
	post("apply", all(slices.Repeat([]string{"old.txt"}, mostSelected+1)...), 400)
	post("discard", all("old.txt"), 400)
	if text := post("apply", all("new/a*b"), 200); strings.Contains(text, "new/ab") {
		t.Errorf("a path with a star chose others: %s", text)
	}
	if _, err := os.Stat(base + "/new/ab"); err == nil {
		t.Error("what was not chosen was applied")
	}
	g.send("GET", path+"changes", token, nil).into(t, &is)
	if text := post("apply", all(".git/hooks/pre-commit"), 200); !strings.Contains(text, `"skipped"`) {
		t.Errorf("a protected path: %s", text)
	}
	if _, err := os.Stat(base + "/.git/hooks/pre-commit"); err == nil {
		t.Error("a protected path was applied")
	}
	write(t, base+"/old.txt", "somebody else\n") // the file changes after the person has read it
	post("apply", all("old.txt"), 409)
	again := func() { // a person who has read the present state
		t.Helper()
		g.send("GET", path+"changes", token, nil).into(t, &is)
		post("apply", all("old.txt"), 409)
	}
	again()
	if text, err := os.ReadFile(base + "/old.txt"); err != nil || string(text) != "somebody else\n" {
		t.Errorf("what changed in the workspace meanwhile: %s, %v", text, err)
	}
	if err := os.Remove(base + "/old.txt"); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "mine\n")
	if err := os.Symlink(outside, base+"/old.txt"); err != nil {
		t.Fatal(err)
	}
	post("apply", all("old.txt"), 409)
	again()
	if text, err := os.ReadFile(outside); err != nil || string(text) != "mine\n" {
		t.Errorf("through a link: %s, %v", text, err)
	}
	g.send("GET", path+"changes", token, nil).into(t, &is)
	post("discard", all(), 200)
	post("discard", all(), 404)
	if len(g.decided) != 3 || g.decided[0].Event != "applied" || g.decided[0].Paths == 0 || g.decided[2].Event != "discarded" || g.decided[2].By != "ann (uid 7)" || g.decided[2].Workspace != base {
		t.Errorf("decided: %+v", g.decided)
	}
	for _, p := range []string{"workspaces/nosuch/changes", "workspaces/nosuch/diff?path=x", "workspaces/..%2f..%2fx/changes"} {
		if got := g.send("GET", "api/v1/"+p, token, nil); got.status != 404 {
			t.Errorf("%s: got %d %s", p, got.status, got.body)
		}
	}
}

// A file that changes in a set while the set is applied is not applied, because the person
// has not seen the change. WC-A20.
func TestChangeWhileApplying(t *testing.T) {
	dir, base, others := filepath.Join(t.TempDir(), "sets"), t.TempDir(), t.TempDir()
	g := start(t, func(_ *rig, v *Views) { v.SetsDir = dir })
	token := g.login(Operator)
	refused, applied := 0, 0
	for try := range 60 {
		if err := os.RemoveAll(base + "/a.txt"); err != nil {
			t.Fatal(err)
		}
		changedSet(t, dir, base, map[string]string{"a.txt": "seen\n"})
		var is changesOf
		g.send("GET", "api/v1/workspaces/s-one/changes", token, nil).into(t, &is)
		upper := ""
		if err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if filepath.Base(name) == "a.txt" {
				upper = name
			}
			return err
		}); err != nil || upper == "" {
			t.Fatalf("the file of the set is %q, %v", upper, err)
		}
		other := filepath.Join(others, "other")
		write(t, other, "other\n")
		var both sync.WaitGroup
		change := func() { _ = os.Rename(other, upper) } // fails if the file was already applied and removed
		switch try {
		case 0: // changed once before the apply, and once not at all, so that both results occur
			change()
		case 1:
		default:
			both.Go(func() {
				testenv.Delay(t.Context(), time.Duration(try%40)*250*time.Microsecond)
				change()
			})
		}
		got := g.send("POST", "api/v1/workspaces/s-one/apply", token, map[string]any{"paths": []string{"a.txt"}, "digest": is.Digest})
		both.Wait()
		text, err := os.ReadFile(base + "/a.txt")
		switch {
		case string(text) == "other\n":
			t.Fatalf("try %d: what nobody has seen was applied; the answer is %d %s", try, got.status, got.body)
		case err == nil && got.status == http.StatusOK:
			applied++
		case err != nil && (got.status == http.StatusConflict || strings.Contains(string(got.body), `"skipped"`)):
			refused++
		default:
			t.Fatalf("try %d: %d %s, %q, %v", try, got.status, got.body, text, err)
		}
	}
	if applied == 0 || refused == 0 {
		t.Errorf("%d applied, %d refused", applied, refused)
	}
}

// BenchmarkChanges measures the list of 10,000 changed files. The bound is one second.
func BenchmarkChanges(b *testing.B) {
	dir, base := filepath.Join(b.TempDir(), "sets"), b.TempDir()
	files := make(map[string]string)
	for i := range 10_000 {
		files[fmt.Sprintf("d%d/f%d.txt", i%100, i)] = "text\n"
	}
	changedSet(b, dir, base, files)
	var most time.Duration
	for b.Loop() {
		r := get(b, "/")
		r.in.SetPathValue("name", "s-one")
		r.views = &Views{SetsDir: dir, scope: Everything()}
		began := time.Now()
		if _, err := listChanges(r); err != nil {
			b.Fatal(err)
		}
		most = max(most, time.Since(began))
	}
	b.ReportMetric(float64(most.Milliseconds()), "ms-most")
}

// Control characters and hidden characters are shown as codes, and no two different lines
// look alike.
func TestShownLine(t *testing.T) {
	for line, want := range map[string]string{
		"":                "",
		"a\tb é":          "a\tb é",
		"\x1b[1m":         `\x1b[1m`,
		`\x1b[1m`:         `\\x1b[1m`,
		`\\x1b[1m`:        `\\\\x1b[1m`,
		"\\\x1b[1m":       `\\\x1b[1m`,
		"a\u202eb":        `a\u{202e}b`,
		`a\u{202e}b`:      `a\\u{202e}b`,
		`C:\new\, \d+\\n`: `C:\new\, \d+\\n`,
		"end\r":           `end\x0d`,
	} {
		if got := shownLine(line); got != want {
			t.Errorf("%q: got %s, want %s", line, got, want)
		}
	}
	parts := []string{`\`, `\\`, "\x1b", "\u202e", "x1b", "u{202e}", "x", "u", "a", "{"}
	seen := make(map[string]string)
	for range 20_000 {
		line := ""
		for range rand.IntN(7) {
			line += parts[rand.IntN(len(parts))]
		}
		shown := shownLine(line)
		if before, ok := seen[shown]; ok && before != line {
			t.Fatalf("%q and %q are both shown as %s", before, line, shown)
		}
		seen[shown] = line
	}
}

// Carriage returns at the ends of lines are shown if not all lines have them.
func TestDropReturns(t *testing.T) {
	windows := []diffLine{{"@", "@@ -1 +1 @@"}, {"-", "a\r"}, {"+", "b\r"}}
	dropReturns(windows)
	if want := []diffLine{{"@", "@@ -1 +1 @@"}, {"-", "a"}, {"+", "b"}}; !slices.Equal(windows, want) {
		t.Errorf("got %q, want %q", windows, want)
	}
	mixed := []diffLine{{"-", "a"}, {"+", "a\r"}}
	dropReturns(mixed)
	if want := []diffLine{{"-", "a"}, {"+", "a\r"}}; !slices.Equal(mixed, want) {
		t.Errorf("got %q, want %q", mixed, want)
	}
}
