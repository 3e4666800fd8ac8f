package sandbox

import (
	"errors"
	"sync"
	"testing"

	"belljar.dev/internal/testenv"
)

// A server answers its client before it makes what boxes need, because that takes longer
// than all else before the answer. The first call that needs it makes it, once.
func TestPrepare(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces)
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if s.groups != nil || s.spawner != nil {
		t.Error("New made what is Prepare's")
	}
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			if err := s.Prepare(); err != nil || s.groups == nil || s.spawner == nil {
				t.Errorf("got %v, and %v %v", err, s.groups, s.spawner)
			}
		})
	}
	callers.Go(func() {
		if len(s.Limits()) == 0 {
			t.Error("no limits")
		}
	})
	callers.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestPrepareAfterClose calls Prepare and Close at the same time. TestMain checks what is
// left: cgroups, their keeper, a thread.
func TestPrepareAfterClose(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces)
	for range 20 {
		s, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		var closing sync.WaitGroup
		closing.Go(func() { _ = s.Close() })
		early := s.Prepare()
		closing.Wait()
		if late := s.Prepare(); early != nil && !errors.Is(early, ErrClosed) || !errors.Is(late, early) {
			t.Errorf("while it closes %v, later %v; want ErrClosed or nothing, twice the same", early, late)
		}
		if s.Prepare() == nil && s.groups == nil || s.Prepare() != nil && s.groups != nil {
			t.Error("half prepared")
		}
	}
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Prepare(); !errors.Is(err, ErrClosed) || s.groups != nil {
		t.Errorf("got %v and %v, want ErrClosed", err, s.groups)
	}
	if s.Limits() != nil || s.Cgroup() != "" || s.SignalsApart() {
		t.Error("a closed supervisor promises something")
	}
}
