package audit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// collected returns the configuration of a log whose checkpoints are collected, and a
// function that returns these checkpoints.
func collected(dir string) (Config, func() []Signed) {
	var mu sync.Mutex
	var all []Signed
	cfg := config(dir)
	cfg.Signed = func(s Signed) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, s)
	}
	return cfg, func() []Signed {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// A person who has a worker's disk can make its log anew, with the log's own key or with
// another one. The checkpoints that other workers keep show that, and the fault names these
// workers.
func TestWitnessesContradict(t *testing.T) {
	original := filepath.Join(t.TempDir(), "audit")
	cfg, signed := collected(original)
	fill(t, cfg, 10)
	early := signed()
	fill(t, cfg, 10)
	all := signed()
	if len(early) != 2 || len(all) != 3 { // one after the first record, and one at each end
		t.Fatalf("%d checkpoints, then %d, want 2 and 3", len(early), len(all))
	}
	var seen []Sighting
	for _, s := range all {
		seen = append(seen, Sighting{"w3", s}, Sighting{"w2", s})
	}
	other := filepath.Join(t.TempDir(), "other")
	fill(t, config(other), 30)
	text := lines(t, filepath.Join(original, currentName))
	half := slices.IndexFunc(text, func(l string) bool { return noteOf(t, l) == early[1].Checkpoint }) + 1
	for name, tt := range map[string]struct {
		change func(t *testing.T, dir string)
		own    bool // the log's own files show nothing
		why    string
	}{
		"nothing": {func(*testing.T, string) {}, true, ""},
		"cut after a checkpoint": {func(t *testing.T, dir string) {
			rewrite(t, filepath.Join(dir, currentName), func(l []string) []string { return l[:half] })
			if err := os.WriteFile(filepath.Join(dir, checkpointName), []byte(early[1].Checkpoint), 0o600); err != nil {
				t.Fatal(err)
			}
		}, true, "the records after it were removed: it is the last one, and the log of workers w2, w3 has a checkpoint of "},
		"made anew with its key": {func(t *testing.T, dir string) {
			resign(t, dir, func(_ int, _, body string) (string, bool) { return strings.Replace(body, "part7 ", "part8 ", 1), true }, honest)
		}, true, "was changed: the log of workers w2, w3 has a checkpoint of "},
		"made anew with another key": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(dir, os.DirFS(other)); err != nil {
				t.Fatal(err)
			}
		}, true, "the log was replaced: the log of workers w2, w3 has a checkpoint of "},
		"all records removed": {func(t *testing.T, dir string) { remove(t, dir, currentName, checkpointName) }, true, "all records were removed: the log of workers w2, w3"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "audit")
			if err := os.CopyFS(dir, os.DirFS(original)); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(dir, keyName), 0o600); err != nil {
				t.Fatal(err)
			}
			tt.change(t, dir)
			if _, err := Verify(t.Context(), dir, Against{}); (err == nil) != tt.own {
				t.Errorf("by its own files: %v", err)
			}
			if tt.why != "" {
				wantFault(t, dir, Against{Witnesses: seen}, tt.why)
				return
			}
			r, err := Verify(t.Context(), dir, Against{Witnesses: seen})
			if err != nil || r.Witnessed != r.Signed || !slices.Equal(r.Witnesses, []string{"w2", "w3"}) {
				t.Errorf("an honest log: %+v, %v", r, err)
			}
		})
	}
}

// A witness whose checkpoint cannot be used accuses nobody, and old files that the log has
// removed are not a fault.
func TestWitnessesThatSayNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	cfg, signed := collected(dir)
	cfg.Audit.Rotate, cfg.Audit.Keep = 12<<10, 2
	fill(t, cfg, 200)
	all := signed()
	seen := []Sighting{{"w2", all[0]}, {"w3", Signed{all[0].Key, "nonsense"}}, {"w4", Signed{"nonsense", all[0].Checkpoint}}}
	r, err := Verify(t.Context(), dir, Against{Witnesses: seen})
	if err != nil || r.Witnessed != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, want := range []string{"1 of the checkpoints that the log of worker w3 has of this log cannot be used", "1 of the checkpoints that the log of worker w4 has of this log cannot be used", "1 checkpoints of witnesses sign records that were removed as old"} {
		if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, want) }) {
			t.Errorf("notes %q, want %q", r.Notes, want)
		}
	}
}

// The checkpoint after a record about the log of another worker is not sent to witnesses:
// otherwise the workers of a fleet at rest would write such records for ever.
func TestWitnessesAreNotWitnessed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	cfg, signed := collected(dir)
	cfg.Node = "w1"
	l := begin(t, cfg)
	put := func(r Record, want int) {
		t.Helper()
		if err := l.Append(r); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time there is nothing to sign
			if err := l.Sign(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(signed()); got != want {
			t.Errorf("%d checkpoints, want %d", got, want)
		}
	}
	put(decision(1), 2) // a checkpoint of the first record, and one of this record
	mine := signed()[1]
	put(Witness{"w2", mine}, 2)
	put(Witness{"w3", mine}, 2)
	put(decision(2), 3)
	finish(t, l)
	if r := verify(t, dir); r.Signed != r.Last && r.Signed != r.Last-1 {
		t.Errorf("the rest is not signed: %+v", r)
	}
	var got []string
	if err := Witnessed(t.Context(), dir, "", func(w Witness) error {
		if w.Signed != mine {
			t.Errorf("%+v, want %+v", w.Signed, mine)
		}
		got = append(got, w.Worker)
		return nil
	}); err != nil || !slices.Equal(got, []string{"w2", "w3"}) {
		t.Errorf("%q, %v", got, err)
	}
	if node, err := NodeOf(t.Context(), dir); node != "w1" || err != nil {
		t.Errorf("%q, %v", node, err)
	}
	if c, err := mine.Open(); err != nil || c.Seq == 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// A witness that makes up a checkpoint, with a key of its own, accuses only itself, and
// hides nothing that the other witnesses show. A key that the log is known to have had
// leaves no doubt.
func TestWitnessThatLies(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	cfg, signed := collected(dir)
	fill(t, cfg, 10)
	true1 := signed()
	other, made := collected(filepath.Join(t.TempDir(), "made-up"))
	fill(t, other, 900)
	lie := made()[len(made())-1]
	seen := []Sighting{{"w2", lie}, {"w3", true1[len(true1)-1]}}
	r, err := Verify(t.Context(), dir, Against{Witnesses: seen})
	if err != nil || r.Witnessed == 0 || !slices.Equal(r.Witnesses, []string{"w3"}) || len(r.Disputes) != 1 || !strings.Contains(r.Disputes[0], "1 of 2 witnesses: the log of worker w2 has") {
		t.Errorf("one of two lies: %+v, %v", r, err)
	}
	lies := slices.Concat(seen, []Sighting{{"w4", Signed{lie.Key, "nonsense"}}}, slices.Repeat([]Sighting{{"w5", Signed{"nonsense", "nonsense"}}}, 100))
	if r, err = Verify(t.Context(), dir, Against{Witnesses: lies, Keys: []string{true1[0].Key}}); err != nil || len(r.Disputes) != 1 || len(r.Notes) > 4 {
		t.Errorf("beside witnesses that have nonsense: %+v, %v", r, err)
	}
	// The only witness lies: if the keys of the log are known, it still accuses nobody.
	if r, err = Verify(t.Context(), dir, Against{Witnesses: seen[:1], Keys: []string{true1[0].Key}}); err != nil || len(r.Disputes) != 1 {
		t.Errorf("the only one lies: %+v, %v", r, err)
	}
	wantFault(t, dir, Against{Witnesses: seen[:1]}, "the log was replaced: the log of worker w2 has")
	wantFault(t, dir, Against{Witnesses: seen, Keys: []string{lie.Key}}, "the log was replaced: the log of worker w2 has")
	// A log that was cut is reported as cut, whatever else witnesses say.
	text := lines(t, filepath.Join(dir, currentName))
	half := slices.IndexFunc(text, func(l string) bool { return noteOf(t, l) == true1[0].Checkpoint }) + 1
	rewrite(t, filepath.Join(dir, currentName), func(l []string) []string { return l[:half] })
	if err := os.WriteFile(filepath.Join(dir, checkpointName), []byte(true1[0].Checkpoint), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFault(t, dir, Against{Witnesses: seen}, "the records after it were removed: it is the last one, and the log of worker w3")
	wantFault(t, dir, Against{Witnesses: seen, Keys: []string{lie.Key}}, "the records after it were removed: it is the last one, and the log of worker w3")
}
