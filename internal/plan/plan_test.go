package plan

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/store"
	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var me = store.Owner{Tenant: "t", Session: "s1"}

func opened(t testing.TB, dir, self string, alive bool) *Book {
	t.Helper()
	s := store.New(filepath.Join(dir, "st"))
	t.Cleanup(func() { s.Close() })
	return New(Config{Config: store.Config{Store: s, Place: "/p", Self: self, Alive: func(string) bool { return alive }}, Dir: filepath.Join(dir, "plans")})
}

// The plan mode of a session whose process was killed is taken over by the next session.
// That of a session whose process still runs is not.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	if _, err := opened(t, dir, "1", true).Enter(t.Context(), me, "a  goal", "x"); err != nil {
		t.Fatal(err)
	}
	next := store.Owner{Tenant: "t", Session: "s2"}
	if _, err := opened(t, dir, "2", true).Adopt(t.Context(), next); !errors.Is(err, ErrInactive) {
		t.Errorf("beside a process that lives: %v", err)
	}
	b := opened(t, dir, "2", false)
	if _, err := b.Adopt(t.Context(), store.Owner{Tenant: "u", Session: "s2"}); !errors.Is(err, ErrInactive) {
		t.Errorf("another tenant: %v", err)
	}
	m, err := b.Adopt(t.Context(), next)
	if err != nil || m.Goal != "a goal" || m.File != "x.md" {
		t.Errorf("after it was killed: %+v, %v", m, err)
	}
	p, err := b.Save(t.Context(), next, m, "", "# plan")
	if err != nil || p.File != "x.md" {
		t.Fatalf("save: %+v, %v", p, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "plans", "t", "x.md")); err != nil || string(text) != "# plan" {
		t.Errorf("the file: %q, %v", text, err)
	}
	if err := b.Leave(t.Context(), next); err != nil {
		t.Error(err)
	}
	if got, err := opened(t, dir, "3", false).Read(t.Context(), "t", "x.md"); err != nil || got.Text != "# plan" {
		t.Errorf("read: %+v, %v", got, err)
	}
	if _, err := b.Read(t.Context(), "u", "x.md"); !errors.Is(err, ErrUnknown) {
		t.Errorf("another tenant reads: %v", err)
	}
}

func TestPlansStayInTheirDirectory(t *testing.T) {
	dir := t.TempDir()
	b := opened(t, dir, "1", true)
	m, err := b.Enter(t.Context(), me, "g", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../x.md", "/etc/x.md", "a/../../x.md", ".hidden.md", "a/.b/c.md", "a//b.md", "a/b/c/d/e.md", "x\x00.md", "a\nb.md", strings.Repeat("a", 200), "..", "a/"} {
		if _, err := b.Save(t.Context(), me, m, name, "x"); !errors.Is(err, ErrFile) {
			t.Errorf("%q: %v, want %v", name, err, ErrFile)
		}
	}
	// Links that lead out of the plans directory are not followed.
	out := filepath.Join(dir, "out")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "plans", "t"), 0o700), os.Mkdir(out, 0o700), os.Symlink(out, filepath.Join(dir, "plans", "t", "link"))); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Save(t.Context(), me, m, "link/x.md", "x"); err == nil {
		t.Error("a plan was saved through a link")
	}
	if entries, _ := os.ReadDir(out); len(entries) != 0 {
		t.Errorf("outside there is %v", entries)
	}
	for _, name := range []string{"plans/y", "./y.md", "a b/y.md"} {
		if _, err := b.Save(t.Context(), me, m, name, "x"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
