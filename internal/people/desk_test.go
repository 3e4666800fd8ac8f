package people

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/store"
	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// note is the smallest question: it waits for a minute, then it is over or answered.
type note struct {
	ID, State string
	Expires   time.Time
}

var notes = Kind[note]{
	Name: "note", Table: "notes_all", Columns: "id, state, expires",
	Schema: store.Schema{Name: "notes", Steps: []string{`CREATE TABLE notes_all (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, state TEXT NOT NULL,
		created INTEGER NOT NULL, expires INTEGER NOT NULL, answered INTEGER NOT NULL DEFAULT 0) STRICT`}},
	Scan: func(row *sql.Rows) (n note, err error) {
		var expires int64
		err = row.Scan(&n.ID, &n.State, &expires)
		n.Expires = store.Time(expires)
		return n, err
	},
	Status: func(n note) (id string, waits bool, ends time.Time) {
		if n.State == "waits" {
			ends = n.Expires
		}
		return n.ID, n.State == "waits", ends
	},
	Shown:   func(id string) string { return id },
	Waiting: "waits", Live: "state = 'waits'", Ends: "state = 'over' WHERE state = 'waits' AND expires <= ?1",
	MostWaiting: 3, MostKept: 5, MostListed: 4,
}

func (d *rig) ask(tenant string) (id string, err error) {
	id = NewID("n")
	return id, d.Write(d.t.Context(), func(w *Work[note]) error {
		return w.Add(d.t.Context(), tenant, "id, tenant, state, created, expires", id, tenant, "waits", w.Now.UnixMilli(), w.Now.Add(time.Minute).UnixMilli())
	})
}

var errOver = errors.New("it is over")

// answer says yes to a note, which accepts the answer while it waits.
func (d *rig) answer(id string) (note, bool, error) {
	return d.Answer(d.t.Context(), id, func(n note, now time.Time) (string, []any, error) {
		if n.State != "waits" {
			return "", nil, errOver
		}
		return "state = 'yes', answered = ?", []any{now.UnixMilli()}, nil
	})
}

// rig is a desk that counts the questions that it has ended.
type rig struct {
	*Desk[note]
	t     *testing.T
	ended atomic.Int32
}

func open(t *testing.T, s *store.Store, now func() time.Time) *rig {
	d := &rig{t: t}
	d.Desk = New(store.Config{Store: s, Now: now}, notes, func(note) { d.ended.Add(1) })
	return d
}

// Of many answers through several desks exactly one counts, in whatever order they arrive.
func TestOneAnswerWins(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	var desks []*rig
	for range 3 {
		s := store.New(dir) // its own store, like that of another process
		t.Cleanup(func() { s.Close() })
		desks = append(desks, open(t, s, nil))
	}
	id, err := desks[0].ask("t")
	if err != nil {
		t.Fatal(err)
	}
	var won atomic.Int32
	var wg sync.WaitGroup
	for n := range 9 {
		wg.Go(func() {
			_, first, err := desks[n%3].answer(id)
			if first && err == nil {
				won.Add(1)
			} else if !errors.Is(err, errOver) {
				t.Errorf("a later answer: %v, want %v", err, errOver)
			}
		})
	}
	wg.Wait()
	if got, err := desks[2].Get(t.Context(), id); won.Load() != 1 || err != nil || got.State != "yes" {
		t.Errorf("%d answers count, and the question is %+v, %v", won.Load(), got, err)
	}
}

// A question without an answer in time ends for good, and for every caller, and its end is
// reported once. A question that still has time survives a restart.
func TestTimeOut(t *testing.T) {
	dir, clock := filepath.Join(t.TempDir(), "st"), time.Now()
	now := func() time.Time { return clock }
	first := store.New(dir)
	id, err := open(t, first, now).ask("t")
	if err != nil || first.Close() != nil {
		t.Fatal(err)
	}
	s := store.New(dir)
	defer s.Close()
	d := open(t, s, now)
	clock = clock.Add(time.Minute - time.Millisecond)
	if got, err := d.Get(t.Context(), id); err != nil || got.State != "waits" || d.ended.Load() != 0 {
		t.Errorf("before its end, after a restart: %+v, %v", got, err)
	}
	clock = clock.Add(time.Millisecond)
	if _, first, err := d.answer(id); first || !errors.Is(err, errOver) {
		t.Errorf("an answer at the end: it counts: %v, %v", first, err)
	}
	for range 2 {
		if got, err := d.Get(t.Context(), id); err != nil || got.State != "over" {
			t.Errorf("after its end: %+v, %v", got, err)
		}
	}
	if list, err := d.List(t.Context(), false); err != nil || len(list) != 0 || d.ended.Load() != 1 {
		t.Errorf("%v, %v still wait; %d ends were told, want 1", list, err, d.ended.Load())
	}
	clock = clock.Add(keepEnded - time.Minute)
	if list, err := d.List(t.Context(), true); err != nil || len(list) != 1 {
		t.Errorf("a week later: %v, %v", list, err)
	}
	clock = clock.Add(2 * time.Minute)
	if list, err := d.List(t.Context(), true); err != nil || len(list) != 0 {
		t.Errorf("after a week: %v, %v", list, err)
	}
	if _, err := d.Get(t.Context(), id); !errors.Is(err, ErrUnknown) || fmt.Sprint(err) != "note "+id+": there is no such note" {
		t.Errorf("got %v", err)
	}
}

// The number of questions of a tenant that wait is bounded, and so is the number of all
// questions. A question that waits is not removed to make room.
func TestBounds(t *testing.T) {
	s := store.New("")
	defer s.Close()
	d := open(t, s, nil)
	var ids []string
	for range notes.MostWaiting {
		id, err := d.ask("t")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if _, err := d.ask("t"); !errors.Is(err, ErrTooMany) || !strings.Contains(err.Error(), fmt.Sprint(notes.MostWaiting)) {
		t.Errorf("one more: %v, want %v", err, ErrTooMany)
	}
	for range 2 * notes.MostKept {
		id, err := d.ask("u")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.answer(id); err != nil {
			t.Fatal(err)
		}
	}
	var all int
	err := d.kept.Read(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRowContext(t.Context(), "SELECT count(*) FROM notes_all").Scan(&all)
	})
	if err != nil || all != notes.MostKept {
		t.Errorf("%d questions are kept, want %d; %v", all, notes.MostKept, err)
	}
	for _, id := range ids {
		if got, err := d.Get(t.Context(), id); err != nil || got.State != "waits" {
			t.Errorf("one that waited: %+v, %v", got, err)
		}
	}
	if list, err := d.List(t.Context(), true); err != nil || len(list) != notes.MostListed {
		t.Errorf("a list of %d, want %d; %v", len(list), notes.MostListed, err)
	}
}

// Wait returns with the answer as soon as it arrives, without an answer when its own time
// ends, and immediately after Stop.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.New("")
		defer s.Close()
		d := open(t, s, nil)
		id, err := d.ask("t")
		if err != nil {
			t.Fatal(err)
		}
		waits := func(most time.Duration) (state string, took time.Duration) {
			start := time.Now()
			got, err := d.Wait(t.Context(), id, most)
			if err != nil {
				t.Error(err)
			}
			return got.State, time.Since(start)
		}
		if state, took := waits(time.Second); state != "waits" || took != time.Second {
			t.Errorf("nobody answers: %s after %v", state, took)
		}
		go func() {
			synctest.Wait()
			if _, _, err := d.answer(id); err != nil {
				t.Error(err)
			}
		}()
		if state, took := waits(time.Minute); state != "yes" || took != 0 {
			t.Errorf("somebody answers: %s after %v", state, took)
		}
		if id, err = d.ask("t"); err != nil {
			t.Fatal(err)
		}
		d.Stop()
		if state, took := waits(time.Minute); state != "waits" || took != 0 {
			t.Errorf("after Stop: %s after %v", state, took)
		}
	})
}
