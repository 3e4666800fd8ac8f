package act_test

import (
	"strings"
	"testing"
	"time"

	"belljar.dev/browser/act"
	"belljar.dev/internal/testenv"
)

// TestHeld checks that no step of a seat is done while a person has stopped it, not even a
// step that was prepared before, and that looks still work (BR42).
func TestHeld(t *testing.T) {
	s := open(t)
	came, let := make(chan struct{}), make(chan struct{})
	s.page("/", `<!doctype html><title>none</title><button onclick="document.title += ' clicked'; const x = new XMLHttpRequest(); x.open('GET', '/slow', false); x.send()">B</button>`)
	s.hold("/slow", came, let)
	l := s.goTo(s.url("site", "/"))
	click := act.Step{Do: act.DoClick, Ref: s.ref(l, `button "B"`)}
	before, err := s.seat.Prepare(s.ctx(), "", click)
	if err != nil {
		t.Fatal(err)
	}
	id := s.seats.List()[0].ID

	// The step that is under way ends first.
	ended := make(chan error, 1)
	go func() {
		_, err := s.do(click)
		ended <- err
	}()
	<-came
	held := make(chan act.Info, 1)
	go func() {
		i, err := s.seats.Hold(s.ctx(), id, "Ada\x1b[2J")
		if err != nil {
			t.Error(err)
		}
		held <- i
	}()
	if !testenv.Until(20*time.Second*testenv.Patience(t), func() bool { return s.seats.List()[0].HeldBy != "" }) {
		t.Fatal("it is not held")
	}
	select {
	case <-held:
		t.Error("it is held while a step is under way")
	default:
	}
	close(let)
	if err := <-ended; err != nil {
		t.Errorf("the step that was under way: %v", err)
	}
	if i := <-held; !strings.HasPrefix(i.HeldBy, "Ada") || strings.Contains(i.HeldBy, "\x1b") || i.HeldSince.IsZero() {
		t.Errorf("it is held as %+v", i)
	}

	if _, err := s.seat.Do(s.ctx(), before, click); act.ReasonOf(err) != act.ReasonHeld {
		t.Errorf("a step that was prepared before: %v", err)
	}
	if _, err := s.do(click); act.ReasonOf(err) != act.ReasonHeld || !strings.Contains(err.Error(), "nothing was done") {
		t.Errorf("a step: %v", err)
	}
	if l := s.look(act.LookRequest{}); strings.Count(l, "clicked") != 1 {
		t.Errorf("the page is\n%s", l)
	}
	if i, err := s.seats.Hold(s.ctx(), id, "Bob"); err != nil || !strings.HasPrefix(i.HeldBy, "Ada") {
		t.Errorf("another person: %+v, %v", i, err)
	}
	if _, err := s.seats.Release(id); err != nil {
		t.Error(err)
	}
	s.must(click)
	for _, f := range []func() (act.Info, error){func() (act.Info, error) { return s.seats.Hold(s.ctx(), "seat-99", "Ada") }, func() (act.Info, error) { return s.seats.Release("") }} {
		if _, err := f(); act.ReasonOf(err) != act.ReasonUnknown {
			t.Errorf("no such browser: %v", err)
		}
	}
}
