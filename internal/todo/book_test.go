package todo

import (
	"path/filepath"
	"testing"

	"belljar.dev/internal/store"
	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var me = store.Owner{Tenant: "t", Session: "s1"}

func opened(t testing.TB, dir string) *Book {
	t.Helper()
	s := store.New(dir)
	t.Cleanup(func() { s.Close() })
	return New(store.Config{Store: s, Place: "/p"})
}

// TestRestart checks that a restart keeps the todos, the current todo, and which ids were
// given.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	first := store.New(dir)
	b := New(store.Config{Store: first, Place: "/p"})
	one, err := b.Create(t.Context(), me, "one")
	if err != nil {
		t.Fatal(err)
	}
	_, s, err := b.Add(t.Context(), me, 0, "first\nstep")
	if err != nil || s.Text != "first step" {
		t.Fatalf("add: %+v, %v", s, err)
	}
	first.Close()

	b = opened(t, dir)
	next := me
	next.Session = "s2"
	if _, after, err := b.SetStep(t.Context(), next, 0, s.ID, Completed); err != nil || after.ID != one.ID || after.Left() != 0 || !after.Current {
		t.Errorf("the step of before: %+v, %v", after, err)
	}
	two, err := b.Create(t.Context(), next, "two")
	if err != nil || two.ID != one.ID+1 || two.Status != InProgress {
		t.Errorf("a second: %+v, %v, want the id %d in progress", two, err, one.ID+1)
	}
	all, err := b.List(t.Context(), me)
	if err != nil || len(all) != 2 || !all[0].Current || all[1].Current || all[1].Status != Pending {
		t.Errorf("another session sees %+v, %v", all, err)
	}
	other := me
	other.Tenant = "u"
	if all, err := b.List(t.Context(), other); err != nil || len(all) != 0 {
		t.Errorf("another tenant sees %+v, %v", all, err)
	}
	if _, err := b.Switch(t.Context(), other, one.ID); !Told(err) {
		t.Errorf("another tenant switches: %v", err)
	}
}

// TestRoom checks that a full book deletes a completed or cancelled todo for a new one, and
// that its id is not given again.
func TestRoom(t *testing.T) {
	b := opened(t, "")
	for range MaxTodos {
		if _, err := b.Create(t.Context(), me, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Create(t.Context(), me, "x"); !Told(err) {
		t.Errorf("one too many: %v", err)
	}
	if _, _, err := b.SetTodo(t.Context(), me, 7, Cancelled); err != nil {
		t.Fatal(err)
	}
	if one, err := b.Create(t.Context(), me, "x"); err != nil || one.ID != MaxTodos+1 {
		t.Errorf("after one is over: %+v, %v, want the id %d", one, err, MaxTodos+1)
	}
	if _, err := b.Switch(t.Context(), me, 7); !Told(err) {
		t.Errorf("the one that made room: %v", err)
	}
}

func BenchmarkAdd(b *testing.B) {
	book := opened(b, filepath.Join(b.TempDir(), "st"))
	one, err := book.Create(b.Context(), me, "x")
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		if n++; n%100 == 0 {
			if one, err = book.Create(b.Context(), me, "x"); err != nil {
				b.Fatal(err)
			}
			if _, _, err := book.SetTodo(b.Context(), me, one.ID-1, Completed); err != nil && !Told(err) {
				b.Fatal(err)
			}
		}
		if _, _, err := book.Add(b.Context(), me, one.ID, "a step of some length, as agents write them"); err != nil {
			b.Fatal(err)
		}
	}
}
