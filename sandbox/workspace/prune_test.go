package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestPrune(t *testing.T) {
	s, base := store(t)
	put(t, base+"/file", "text\n")
	for _, id := range []string{"changed", "empty", "live", "old", "reverted", "waits", "way-back"} {
		must(t, s.Create(id, base, Protect{}))
	}
	put(t, top(t, s, "changed")+"/x", "x")
	put(t, top(t, s, "old")+"/x", "x")
	reverted := top(t, s, "reverted") + "/file" // file that was copied up and is the same as in the base
	put(t, reverted, "text\n")
	info, err := os.Stat(base + "/file")
	must(t, err)
	must(t, os.Chtimes(reverted, info.ModTime(), info.ModTime()))
	put(t, s.path+"/"+setsDir+"/waits/"+journalName, "{}")
	must(t, s.Checkpoint("way-back", "mine"))
	l, err := s.Use("live", "local", base, Protect{})
	must(t, err)
	defer l.Close()
	past := time.Now().Add(-800 * time.Hour)
	for _, id := range []string{"old", "empty", "live", "waits"} {
		must(t, os.Chtimes(filepath.Join(s.path, setsDir, id, metaName), past, past))
	}
	prune := func(opts PruneOptions) []string {
		t.Helper()
		all, err := s.Prune(t.Context(), opts)
		must(t, err)
		var got []string
		for _, p := range all {
			got = append(got, strings.TrimSpace(fmt.Sprint(p.ID, " ", p.Removed, " ", strings.SplitN(p.Kept, ";", 2)[0])))
		}
		return got
	}
	if _, err := s.Prune(t.Context(), PruneOptions{}); err == nil {
		t.Error("removed all")
	}
	const waits = "waits false an apply of it was interrupted"
	for _, c := range []struct {
		opts PruneOptions
		want []string
	}{
		{PruneOptions{Unused: 720 * time.Hour, Empty: true, DryRun: true}, []string{"empty true", waits}},
		{PruneOptions{Unused: 720 * time.Hour, DryRun: true}, []string{"empty true", "old true", waits}},
		{PruneOptions{Empty: true}, []string{"empty true", "reverted true", waits}},
		{PruneOptions{Unused: 720 * time.Hour}, []string{"old true", waits}},
	} {
		if diff := cmp.Diff(c.want, prune(c.opts)); diff != "" {
			t.Errorf("%+v: want (-), got (+):\n%s", c.opts, diff)
		}
	}
	ids, err := s.ids()
	must(t, err)
	if diff := cmp.Diff([]string{"changed", "live", "waits", "way-back"}, ids); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// TestUse checks that the time of a set's last use changes with each operation that Info.Used
// names, also if the operation does not write the set, and with no other.
func TestUse(t *testing.T) {
	apply := func(opts Options) func(s *Store, l *Lease) error {
		return func(s *Store, _ *Lease) error {
			opts.Protected, opts.Live = true, true
			_, err := s.Apply(t.Context(), "set", opts)
			return err
		}
	}
	fork := func(s *Store, _ *Lease) error { return s.Fork("set", "fork") }
	checkpoint := func(s *Store, _ *Lease) error { return s.Checkpoint("set", "name") }
	for _, tt := range []struct {
		name        string
		empty, live bool
		do          func(s *Store, l *Lease) error
		unused      bool
	}{
		{name: "fork", do: fork},
		{name: "fork of an empty set", do: fork, empty: true},
		{name: "fork beside a box", do: fork, live: true},
		{name: "fork of an empty set beside a box", do: fork, empty: true, live: true},
		{name: "checkpoint", do: checkpoint},
		{name: "checkpoint beside a box", do: checkpoint, live: true},
		{name: "checkpoint of an empty set", do: checkpoint, empty: true},
		{name: "apply", do: apply(Options{})},
		{name: "apply of a part", do: apply(Options{Paths: []string{"a"}})},
		{name: "apply of an empty set", do: apply(Options{}), empty: true},
		{name: "apply beside a box", do: apply(Options{}), live: true},
		{name: "a command of a box", live: true, do: func(_ *Store, l *Lease) error { l.NoteUse(); return nil }},
		{name: "the end of a box", live: true, do: func(_ *Store, l *Lease) error { return l.Close() }},
		{name: "the beginning of a box", do: func(s *Store, _ *Lease) error {
			h, err := s.hold("set")
			must(t, err)
			defer h.close()
			l, err := s.Use("set", "", h.meta.Base, Protect{})
			must(t, err)
			l.drop() // as if its program was killed
			return nil
		}},
		{name: "apply that only says what it would do", do: apply(Options{DryRun: true}), unused: true},
		{name: "diff", unused: true, do: func(s *Store, _ *Lease) error { _, err := s.Changes(t.Context(), "set"); return err }},
		{name: "list", unused: true, do: func(s *Store, _ *Lease) error { _, err := s.List(); return err }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, base := store(t)
			must(t, s.Create("set", base, Protect{}))
			if !tt.empty {
				put(t, top(t, s, "set")+"/a", "a")
				put(t, top(t, s, "set")+"/b", "b")
			}
			var l *Lease
			if tt.live {
				var err error
				l, err = s.Use("set", "", base, Protect{})
				must(t, err)
				defer l.Close()
			}
			past := time.Now().Add(-800 * time.Hour)
			must(t, os.Chtimes(filepath.Join(s.path, setsDir, "set", metaName), past, past))
			must(t, tt.do(s, l))
			info, err := s.Info("set")
			must(t, err)
			if unused := time.Since(info.Used) > time.Hour; unused != tt.unused {
				t.Errorf("used %s ago, want it unused: %v", time.Since(info.Used), tt.unused)
			}
		})
	}
}

// TestPruneSeesTheLastUse checks that prune keeps a set that another program uses while prune
// waits for that program.
func TestPruneSeesTheLastUse(t *testing.T) {
	for name, opts := range map[string]PruneOptions{"unused": {Unused: 720 * time.Hour}, "empty": {Empty: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, base := store(t)
				must(t, s.Create("set", base, Protect{}))
				past := time.Now().Add(-800 * time.Hour)
				must(t, os.Chtimes(filepath.Join(s.path, setsDir, "set", metaName), past, past))
				h, err := s.hold("set")
				must(t, err)
				defer h.close()
				must(t, h.busy(unix.LOCK_EX))
				var pruned []Pruned
				var wg sync.WaitGroup
				wg.Go(func() { pruned, err = s.Prune(t.Context(), opts) })
				synctest.Wait() // Prune waits for the lock
				h.meta.Checkpoints = append(h.meta.Checkpoints, checkpoint{Name: "mine", Time: time.Now()})
				must(t, h.write())
				h.unlock()
				wg.Wait()
				if err != nil || len(pruned) > 0 {
					t.Errorf("got %+v, %v", pruned, err)
				}
			})
		})
	}
}

func TestFullStoreNamesPrune(t *testing.T) {
	s, base := store(t)
	for i := range maxSets {
		must(t, os.Mkdir(fmt.Sprintf("%s/%s/x%d", s.path, setsDir, i), 0o700))
	}
	if err := s.Create("more", base, Protect{}); err == nil || !strings.Contains(err.Error(), "workspace prune --empty") {
		t.Errorf("got %v", err)
	}
}

// TestDeletedByAPerson checks that a file which a box changed and a person deleted is a
// conflict. A file that the box made or renamed, or that Apply removed, is not a conflict.
func TestDeletedByAPerson(t *testing.T) {
	s, base := store(t)
	for _, name := range []string{"edited", "saved", "renamed", "gone", "d/deep", "kept", "again"} {
		put(t, base+"/"+name, name)
	}
	l, err := s.Use("set", "local", base, Protect{})
	must(t, err)
	dir := top(t, s, "set")
	for _, name := range []string{"edited", "saved", "d/deep", "kept", "made"} {
		put(t, dir+"/"+name, "new")
	}
	put(t, dir+"/to", "renamed")
	whiteout(t, dir+"/renamed")
	whiteout(t, dir+"/gone")
	whiteout(t, dir+"/again")
	if _, err := s.Apply(t.Context(), "set", Options{Paths: []string{"again"}, Protected: true, Live: true}); err != nil {
		t.Fatal(err)
	}
	must(t, os.Remove(dir+"/again"))
	put(t, dir+"/again", "by the box")
	must(t, l.Close())
	for _, path := range []string{"edited", "saved", "d", "gone"} {
		must(t, os.RemoveAll(filepath.Join(base, path)))
	}
	want := []string{
		"added file again", "added directory d", "added file d/deep CONFLICT", "added file edited CONFLICT", "modified file kept",
		"added file made", "deleted file renamed", "added file saved CONFLICT", "added file to",
	}
	if diff := cmp.Diff(want, diff(t, s, "set")); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	must(t, s.Fork("set", "fork"))
	if diff := cmp.Diff(want, diff(t, s, "fork")); diff != "" {
		t.Errorf("the fork: want (-), got (+):\n%s", diff)
	}
}

// TestDeletedByApply checks that a file which Apply removed after a diff had recorded it is
// not a conflict either.
func TestDeletedByApply(t *testing.T) {
	s, base := store(t)
	put(t, base+"/the-file", "old")
	l, err := s.Use("set", "local", base, Protect{})
	must(t, err)
	defer l.Close()
	dir := top(t, s, "set")
	put(t, dir+"/the-file", "new")
	diff(t, s, "set") // diff records the file as seen
	must(t, os.Remove(dir+"/the-file"))
	whiteout(t, dir+"/the-file")
	_, err = s.Apply(t.Context(), "set", Options{Protected: true, Live: true})
	must(t, err)
	must(t, os.Remove(dir+"/the-file"))
	put(t, dir+"/the-file", "again")
	if got := diff(t, s, "set"); !slices.Equal(got, []string{"added file the-file"}) {
		t.Errorf("got %v", got)
	}
	_, err = s.Apply(t.Context(), "set", Options{Protected: true, Live: true})
	must(t, err)
	diff(t, s, "set")
	must(t, os.Remove(base+"/the-file"))
	if got := diff(t, s, "set"); !slices.Equal(got, []string{"added file the-file CONFLICT"}) {
		t.Errorf("got %v", got)
	}
}

func FuzzSeen(f *testing.F) {
	f.Add([]byte("YQ==\n-YQ==\nYg==\n"))
	f.Add([]byte("-\n\nx"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		must(t, os.WriteFile(dir+"/"+seenName, text, 0o600))
		d, err := os.Open(dir)
		must(t, err)
		defer d.Close()
		h := &held{dir: d}
		h.addSeen("", []string{"a/b"})
		h.addSeen("-", []string{"c"})
		seen, err := h.readSeen()
		must(t, err)
		if !seen["a/b"] || seen["c"] {
			t.Errorf("got %v", seen)
		}
	})
}
