package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestForkAndRollback(t *testing.T) {
	s, base := store(t)
	put(t, base+"/text", "base\n")
	must(t, s.Create("set", base, Protect{}))
	put(t, top(t, s, "set")+"/text", "one\n")
	must(t, s.Checkpoint("set", "one"))
	put(t, top(t, s, "set")+"/text", "two\n")
	put(t, top(t, s, "set")+"/both", "x")
	must(t, s.Fork("set", "fork"))
	put(t, top(t, s, "set")+"/mine", "x")
	put(t, top(t, s, "fork")+"/theirs", "x")
	whiteout(t, top(t, s, "fork")+"/both")
	for id, want := range map[string][]string{
		"set":  {"added file both", "added file mine", "modified file text"},
		"fork": {"modified file text", "added file theirs"},
	} {
		if d := cmp.Diff(want, diff(t, s, id)); d != "" {
			t.Errorf("%s: want (-), got (+):\n%s", id, d)
		}
	}
	must(t, s.Rollback("set", "one"))
	if d := cmp.Diff([]string{"modified file text"}, diff(t, s, "set")); d != "" {
		t.Errorf("want (-), got (+):\n%s", d)
	}
	if text := read(t, s, "set", "text"); text != "one\n" {
		t.Errorf("got %q", text)
	}
	// The fork is still usable after the set is discarded, and so is its checkpoint.
	must(t, s.Discard("set"))
	if text := read(t, s, "fork", "text"); text != "two\n" {
		t.Errorf("got %q", text)
	}
	must(t, s.Rollback("fork", "one"))
	must(t, s.Discard("fork"))
	s.wg.Wait()
	for _, dir := range []string{setsDir, layersDir, newDir, trashDir} {
		entries, err := os.ReadDir(filepath.Join(s.path, dir))
		if err != nil || len(entries) > 0 {
			t.Errorf("%s holds %v, %v", dir, entries, err)
		}
	}
	if text, err := os.ReadFile(base + "/text"); err != nil || string(text) != "base\n" {
		t.Errorf("the base: %q, %v", text, err)
	}
}

// read returns a file as the set has it.
func read(t testing.TB, s *Store, id, path string) string {
	t.Helper()
	h, err := s.hold(id)
	must(t, err)
	defer h.close()
	for _, l := range append([]string{h.meta.Top}, h.meta.Layers...) {
		text, err := os.ReadFile(filepath.Join(s.path, layersDir, l, upperDir, path))
		if err == nil {
			return string(text)
		}
	}
	return ""
}

func TestALiveSet(t *testing.T) {
	s, base := store(t)
	l, err := s.Use("set", "local", base, Protect{})
	must(t, err)
	defer l.Close()
	up := filepath.Join(l.Dirs()[0], Upper)
	put(t, up+"/text", "one\n")
	put(t, up+"/dir/file", "one\n")
	must(t, os.Link(up+"/text", up+"/link"))
	if _, err := s.Use("set", "local", base, Protect{}); !errors.Is(err, ErrLive) {
		t.Errorf("a second box: %v", err)
	}
	if err := s.Discard("set"); !errors.Is(err, ErrLive) {
		t.Errorf("discard: %v", err)
	}
	// Fork and Checkpoint copy, so a later change of the box is not in them.
	must(t, s.Fork("set", "fork"))
	must(t, s.Checkpoint("set", "one"))
	if err := s.Rollback("set", "one"); !errors.Is(err, ErrLive) || !strings.Contains(err.Error(), "end the session") {
		t.Errorf("rollback: %v", err)
	}
	put(t, up+"/text", "two\n")
	put(t, up+"/more", "two\n")
	if d := cmp.Diff([]string{"added directory dir", "added file dir/file", "added file link", "added file text = link"}, diff(t, s, "fork")); d != "" {
		t.Errorf("want (-), got (+):\n%s", d)
	}
	// The changes are applied, but the box keeps the layers that it has mounted.
	r := apply(t, s, Options{Live: true})
	if !r.Live || r.Emptied || len(r.Applied) != 5 {
		t.Errorf("got %+v", r)
	}
	if text, err := os.ReadFile(up + "/more"); err != nil || string(text) != "two\n" {
		t.Errorf("got %q, %v", text, err)
	}
	must(t, s.Fork("set", "applied")) // the fork also knows what was applied
	put(t, top(t, s, "applied")+"/more", "three\n")
	if d := cmp.Diff([]string{"modified file more"}, diff(t, s, "applied")); d != "" {
		t.Errorf("want (-), got (+):\n%s", d)
	}
	info, err := s.Info("set")
	if err != nil || !info.Live || len(info.Checkpoints) != 1 {
		t.Errorf("got %+v, %v", info, err)
	}
	must(t, l.Close())
	must(t, s.Rollback("set", "one"))
	if text := read(t, s, "set", "text"); text != "one\n" {
		t.Errorf("got %q", text)
	}
}

func TestAnUntouchedSetGoes(t *testing.T) {
	s, base := store(t)
	for _, c := range []struct {
		change func(up string)
		left   int
	}{{func(string) {}, 0}, {func(up string) { put(t, up+"/x", "x") }, 1}} {
		l, err := s.Use("set", "local", base, Protect{})
		must(t, err)
		c.change(filepath.Join(l.Dirs()[0], Upper))
		must(t, l.Close())
		if all, err := s.List(); err != nil || len(all) != c.left {
			t.Errorf("got %v, %v; want %d", all, err, c.left)
		}
	}
	if _, err := s.Use("set", "local", t.TempDir(), Protect{}); err == nil || !strings.Contains(err.Error(), base) {
		t.Errorf("another base: %v", err)
	}
}

// TestTornSets checks that a set whose files contradict each other is reported as damaged,
// and never used.
func TestTornSets(t *testing.T) {
	for name, tear := range map[string]func(t *testing.T, s *Store, base string){
		"no meta":     func(t *testing.T, s *Store, _ string) { must(t, os.Remove(s.path+"/sets/set/set.json")) },
		"half a meta": func(t *testing.T, s *Store, _ string) { must(t, os.Truncate(s.path+"/sets/set/set.json", 40)) },
		"no layer": func(t *testing.T, s *Store, _ string) {
			must(t, os.RemoveAll(filepath.Dir(top(t, s, "set"))))
		},
		"a shared top": func(t *testing.T, s *Store, _ string) {
			must(t, os.Mkdir(s.path+"/sets/two", 0o700))
			text, err := os.ReadFile(s.path + "/sets/set/set.json")
			must(t, err)
			must(t, os.WriteFile(s.path+"/sets/two/set.json", text, 0o600))
		},
		"another base": func(t *testing.T, _ *Store, base string) {
			must(t, os.Rename(base, base+"2"))
			must(t, os.Mkdir(base, 0o755))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, base := store(t)
			must(t, s.Create("set", base, Protect{}))
			put(t, top(t, s, "set")+"/x", "x")
			tear(t, s, base)
			if _, err := s.Use("set", "local", base, Protect{}); !errors.Is(err, ErrTorn) {
				t.Errorf("use: %v", err)
			}
			all, err := s.List()
			if err != nil || name != "another base" && all[0].Torn == "" {
				t.Errorf("list: %+v, %v", all, err)
			}
			must(t, s.Discard("set"))
		})
	}
}

func TestBounds(t *testing.T) {
	s, base := store(t)
	for _, bad := range []string{"", ".", "..", "a/b", "-x", "a b", "ä", strings.Repeat("x", 65)} {
		if err := s.Create(bad, base, Protect{}); err == nil {
			t.Errorf("a set named %q was made", bad)
		}
	}
	must(t, s.Create("set", base, Protect{}))
	if err := s.Create("set", base, Protect{}); !errors.Is(err, ErrExists) {
		t.Errorf("twice: %v", err)
	}
	if err := s.Fork("nothing", "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("fork of nothing: %v", err)
	}
	for i := range maxCheckpoints {
		put(t, fmt.Sprintf("%s/%d", top(t, s, "set"), i), "x")
		must(t, s.Checkpoint("set", fmt.Sprint(i)))
	}
	if err := s.Checkpoint("set", "more"); !errors.Is(err, ErrTooMany) {
		t.Errorf("too many checkpoints: %v", err)
	}
	info, err := s.Info("set")
	if err != nil || info.Layers >= maxLayers || len(diff(t, s, "set")) != maxCheckpoints {
		t.Errorf("got %d layers, %d changes, %v", info.Layers, len(diff(t, s, "set")), err)
	}
	must(t, os.Chmod(s.path, 0o755))
	if s, err := Open(s.path); err == nil {
		s.Close()
		t.Error("a store that others can read was opened")
	}
	must(t, os.Chmod(s.path, 0o700))
}

// repository returns a base of 50,000 files, and a set that changes 1,000 of them.
func repository(b *testing.B) (*Store, string) {
	s, base := store(b)
	for i := range 500 {
		dir := fmt.Sprintf("%s/%d/%d", base, i/25, i)
		must(b, os.MkdirAll(dir, 0o755))
		for j := range 100 {
			must(b, os.WriteFile(fmt.Sprintf("%s/%d", dir, j), []byte("text\n"), 0o644))
		}
	}
	must(b, s.Create("set", base, Protect{}))
	up := top(b, s, "set")
	for i := range 1000 {
		put(b, fmt.Sprintf("%s/%d/%d/%d", up, i/25%20, i%500, i%100), "changed\n")
	}
	return s, base
}

func BenchmarkFork(b *testing.B) {
	s, _ := repository(b)
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprint("fork", i)
		must(b, s.Fork("set", id))
		b.StopTimer()
		put(b, top(b, s, "set")+"/one", id) // makes a change, so that there is something to freeze
		must(b, s.Discard(id))
		s.wg.Wait()
		b.StartTimer()
	}
}

func BenchmarkDiscard(b *testing.B) {
	s, base := repository(b)
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		id := fmt.Sprint("other", i)
		must(b, s.Create(id, base, Protect{}))
		for j := range 100 {
			put(b, fmt.Sprintf("%s/%d", top(b, s, id), j), "x")
		}
		b.StartTimer()
		must(b, s.Discard(id))
		b.StopTimer()
		s.wg.Wait()
		b.StartTimer()
	}
}

func BenchmarkChanges(b *testing.B) {
	s, _ := repository(b)
	for b.Loop() {
		if _, err := s.Changes(b.Context(), "set"); err != nil {
			b.Fatal(err)
		}
	}
}
