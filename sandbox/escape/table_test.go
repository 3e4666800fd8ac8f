package escape

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) {
	Main()
	testenv.Main(m)
}

// The table has enough probes, also for an ordinary user, and some of every category.
func TestEscapeTable(t *testing.T) {
	all := All()
	if err := Check(all); err != nil {
		t.Error(err)
	}
	const least = 120
	if len(all) < least {
		t.Errorf("%d probes, want at least %d", len(all), least)
	}
	anybody := 0
	for _, p := range all {
		if !p.Root {
			anybody++
		}
	}
	if anybody < least {
		t.Errorf("%d probes for an ordinary user, want at least %d", anybody, least)
	}
	for _, c := range Categories() {
		if !slices.ContainsFunc(all, func(p Probe) bool { return p.Category == c }) {
			t.Errorf("no probe of category %s", c)
		}
	}
}

// A probe keeps its id, because reports name it. These are the first 81 ids.
func TestEscapeTableKeepsTheFirstIDs(t *testing.T) {
	first := map[string]int{"F": 18, "P": 12, "D": 4, "C": 5, "N": 4, "S": 17, "W": 6, "X": 3, "R": 7, "L": 5}
	total := 0
	for letter, n := range first {
		total += n
		for i := 1; i <= n; i++ {
			id := letter + string(rune('0'+i/10)) + string(rune('0'+i%10))
			if _, ok := find(id); !ok && id != "S15" { // only one architecture has S15
				t.Errorf("%s is gone", id)
			}
		}
	}
	if total != 81 {
		t.Errorf("%d first probes, want 81", total)
	}
}

func TestCheckFindsFaults(t *testing.T) {
	act := func(*Facts) (string, error) { return "", nil }
	good := Probe{ID: "A01", Name: "a", Category: Proc, try: act}
	tests := []struct {
		name  string
		table []Probe
		want  string
	}{
		{"none", []Probe{good}, ""},
		{"an id twice", []Probe{good, good}, "twice"},
		{"an id with a slash", []Probe{{ID: "A/1", Name: "a", Category: Proc, try: act}}, "a space or a slash"},
		{"no name", []Probe{{ID: "A01", Category: Proc, try: act}}, "no name"},
		{"no act", []Probe{{ID: "A01", Name: "a", Category: Proc}}, "attempts nothing"},
		{"no category", []Probe{{ID: "A01", Name: "a", try: act}}, "no category"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Check(tt.table)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// If the prober does not report the end of an attempt, the attempt never counts as refused.
func TestAttemptSettlesWhatAProberSays(t *testing.T) {
	const begins, ends = `{"step":"begun","id":"A01"}` + "\n", `{"step":"done","id":"A01","through":true,"detail":"x"}` + "\n"
	death := errors.New("killed")
	tests := []struct {
		name  string
		probe Probe
		out   string
		death error
		want  Outcome // of Err only whether it is nil
	}{
		{"through", Probe{}, begins + ends, nil, Outcome{Through: true, Detail: "x"}},
		{"refused", Probe{}, begins + strings.Replace(ends, "true", "false", 1), nil, Outcome{Detail: "x"}},
		{"did not run", Probe{dies: true}, "", death, Outcome{Err: death}},
		{"died unexpectedly", Probe{}, begins, death, Outcome{Err: death}},
		{"died as it may", Probe{dies: true}, begins, death, Outcome{Detail: "the prober died: killed"}},
		{"could not be tried", Probe{}, begins + `{"step":"done","id":"A01","fault":"no"}`, nil, Outcome{Err: death}},
		{"spoke for another", Probe{}, strings.ReplaceAll(begins+ends, "A01", "A02"), nil, Outcome{Err: death}},
		{"spoke nonsense", Probe{}, "hello\n" + begins + ends, nil, Outcome{Err: death}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.probe.ID, tt.probe.try = "A01", func(*Facts) (string, error) { return "", nil }
			got := attempt(t.Context(), &tt.probe, &Facts{}, func(context.Context, string, *Facts) (string, error, error) {
				return tt.out, tt.death, nil
			}, nil)
			if got.Through != tt.want.Through || (got.Err == nil) != (tt.want.Err == nil) || got.Err == nil && got.Detail != tt.want.Detail {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if got.Err != nil && tt.probe.Held(got) {
				t.Error("an attempt that showed nothing counts as held")
			}
		})
	}
}

// A box that reveals nothing must not be confused with a prober that finds nothing. So the
// victim's own user must find all of it.
func TestVictimIsRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	v, err := newVictim("a-token-of-this-test")
	if err != nil {
		v.remove()
		t.Fatal(err)
	}
	for _, path := range []string{v.File, v.Shm, v.Fifo, v.Socket} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("not made: %v", err)
		}
	}
	if _, err := attaches(&v); err != nil {
		t.Errorf("not made: %v", err)
	}
	v.remove()
	for _, path := range []string{v.Dir, v.Shm} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
	if _, err := attaches(&v); err == nil {
		t.Error("the shared memory is left")
	}
	if _, err := openMq(v.Mq, 0); err == nil {
		t.Error("the message queue is left")
	}
}
