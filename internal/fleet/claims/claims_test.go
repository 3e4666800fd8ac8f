package claims

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"belljar.dev/internal/testenv"
)

// world is claims under test: crash ends the process that has them, at any byte of what it
// writes, and opens them again.
type world interface {
	Claims
	crash(r *rand.Rand)
}

// history makes random calls and compares each answer with a model: a place that was claimed
// and not released belongs to one worker for ever.
func history(t *testing.T, w world, r *rand.Rand) {
	t.Helper()
	model := make(map[string]string)
	var did []string
	note := func(format string, args ...any) { did = append(did, fmt.Sprintf(format, args...)) }
	for range 8 + r.IntN(24) {
		place, worker := fmt.Sprintf("t/p%d", r.IntN(4)), fmt.Sprintf("w%d", r.IntN(3))
		switch r.IntN(8) {
		case 0, 1, 2:
			owner, err := w.Claim(t.Context(), place, worker)
			note("claim %s %s = %s", place, worker, owner)
			if model[place] == "" {
				model[place] = worker
			}
			if err != nil || owner != model[place] {
				t.Fatalf("got %s, %v, want %s\n%s", owner, err, model[place], strings.Join(did, "\n"))
			}
		case 3: // of several fronts at once
			var all sync.WaitGroup
			owners := make([]string, 3)
			for i := range owners {
				all.Go(func() { owners[i], _ = w.Claim(t.Context(), place, fmt.Sprintf("w%d", i)) })
			}
			all.Wait()
			note("claim %s by three = %q", place, owners)
			if model[place] == "" {
				model[place] = owners[0]
			}
			for _, owner := range owners {
				if owner != model[place] || owner == "" {
					t.Fatalf("got %q, want %s\n%s", owners, model[place], strings.Join(did, "\n"))
				}
			}
		case 4:
			if err := w.Release(t.Context(), place, worker); err != nil {
				t.Fatal(err)
			}
			note("release %s %s", place, worker)
			if model[place] == worker {
				delete(model, place)
			}
		case 5:
			note("crash")
			w.crash(r)
		default:
			owner, err := w.Owner(t.Context(), place)
			if err != nil || owner != model[place] {
				t.Fatalf("the owner of %s is %s, %v, want %s\n%s", place, owner, err, model[place], strings.Join(did, "\n"))
			}
		}
	}
	if all, err := w.All(); err != nil || !maps.Equal(all, model) {
		t.Fatalf("got %v, %v, want %v\n%s", all, err, model, strings.Join(did, "\n"))
	}
}

// journaled is a journal that crashes. The process ends while it writes another claim, which
// has not returned to anybody.
type journaled struct {
	*Journal
	t    *testing.T
	path string
}

func (j *journaled) crash(r *rand.Rand) {
	if err := j.Close(); err != nil {
		j.t.Fatal(err)
	}
	const line = `{"place":"t/torn","worker":"w9"}`
	f, err := os.OpenFile(j.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		j.t.Fatal(err)
	}
	if _, err := f.WriteString(line[:r.IntN(len(line)+1)]); err != nil {
		j.t.Fatal(err)
	}
	f.Close()
	if j.Journal, err = OpenJournal(j.path); err != nil {
		j.t.Fatal(err)
	}
}

func TestClaims(t *testing.T) {
	n, r := testenv.Cases(t, 2000)
	dir := testenv.MemoryDir(t)
	for i := range n {
		path := filepath.Join(dir, fmt.Sprint(i%8))
		_ = os.Remove(path)
		j, err := OpenJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		w := &journaled{j, t, path}
		history(t, w, r)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A journal is one process's, is written anew before it is long, and is not believed where
// it is damaged.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claims")
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if !j.Empty() {
		t.Error("a new journal is not empty")
	}
	if _, err := OpenJournal(path); err == nil {
		t.Error("two processes have one journal")
	}
	j.lines = slack + 2
	if owner, err := j.Claim(t.Context(), "a", "w1"); err != nil || owner != "w1" {
		t.Errorf("claim: %s, %v", owner, err)
	}
	if j.lines != 1 {
		t.Errorf("%d lines are left of a long journal with one place", j.lines)
	}
	if owner, err := j.Claim(t.Context(), "b", "w2"); err != nil || owner != "w2" {
		t.Errorf("claim after that: %s, %v", owner, err)
	}
	if _, err := OpenJournal(path); err == nil {
		t.Error("two processes have one journal that was written anew")
	}
	j.Close()
	j.Close()
	if _, err := j.Claim(context.Background(), "c", "w1"); err == nil {
		t.Error("a closed journal takes a claim")
	}
	if j, err = OpenJournal(path); err != nil {
		t.Fatal(err)
	}
	if all, _ := j.All(); len(all) != 2 || all["b"] != "w2" || j.Empty() {
		t.Errorf("read again: %v", all)
	}
	j.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, damage := range []string{"{}\n", "x\n", strings.Repeat("x", maxLine+1) + "\n"} {
		if err := os.WriteFile(path, append([]byte(damage), text...), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenJournal(path); err == nil {
			t.Errorf("%.20q is believed", damage)
		}
	}
}
