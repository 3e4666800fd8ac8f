package act_test

import (
	"errors"
	"testing"

	"belljar.dev/browser/act"
)

// TestClicksThatAreNotBegun checks that a dialog that opens while the mouse moves to an
// element is not an effect of a click, and that the step does not report a click.
func TestClicksThatAreNotBegun(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><button onclick="fetch('/hit')">Pay</button><script>document.querySelector("button").addEventListener("mousemove", () => confirm("sure?"), { once: true })</script>`)
	l := s.goTo(s.url("site", "/"))
	err := clicked(s, l)
	if r, _ := errors.AsType[*act.Refusal](err); r == nil || r.Reason != act.ReasonDialog || r.Ran {
		t.Errorf("the click was done, or failed by %v", err)
	}
	s.must(act.Step{Do: act.DoDialog, Accept: new(false)})
	s.must(act.Step{Do: act.DoWait, MS: 100}) // everything that was sent by now has arrived
	if n := s.heard("/hit"); n != 0 {
		t.Errorf("the server heard %d clicks", n)
	}
	if err := clicked(s, l); err != nil { // now the mouse opens no dialog
		t.Errorf("with the dialog answered: %v", err)
	}
	s.wait(func() bool { return s.heard("/hit") == 1 })
}

func clicked(s *stage, look string) error {
	_, err := s.do(act.Step{Do: act.DoClick, Ref: s.ref(look, `button "Pay"`)})
	return err
}

// TestInputThatIsNotBegun checks that a step is refused, and nothing is typed, if a dialog
// waits or the document was left before its first input. A dialog that the input opens is
// an effect of the input.
func TestInputThatIsNotBegun(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><input aria-label=Plain><input aria-label=Asks oninput="confirm('sure?')"><button onclick="confirm('first')">Ask</button>`)
	l := s.goTo(s.url("site", "/"))
	plain, asks := s.ref(l, `text "Plain"`), s.ref(l, `text "Asks"`)
	values := func() string { return s.eval(`Array.from(document.querySelectorAll("input"), (e) => e.value).join()`) }
	focus := func(ref int) { s.must(act.Step{Do: act.DoClick, Ref: ref}) }
	refused := func(what string, err error, want act.Reason) {
		t.Helper()
		if r, _ := errors.AsType[*act.Refusal](err); r == nil || r.Reason != want || r.Ran {
			t.Errorf("%s: it was done, or failed by %v", what, err)
		}
	}
	insert := func(ref int, left bool) error { return s.seat.Insert(s.ctx(), ref, "x", left) }
	focus(plain)
	refused("a document that was left", insert(plain, true), act.ReasonStale)
	refused("keys in it", s.seat.TakesInput(plain, true), act.ReasonStale)
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Ask"`)})
	refused("behind a dialog", insert(plain, false), act.ReasonDialog)
	refused("keys behind it", s.seat.TakesInput(plain, false), act.ReasonDialog)
	s.must(act.Step{Do: act.DoDialog, Accept: new(false)})
	if got := values(); got != `","` {
		t.Errorf("the fields have %s", got)
	}
	focus(asks)
	if err := insert(asks, false); err != nil {
		t.Errorf("a field that asks: %v", err)
	}
	s.must(act.Step{Do: act.DoDialog, Accept: new(false)})
	focus(plain)
	if err := errors.Join(s.seat.TakesInput(plain, false), insert(plain, false)); err != nil {
		t.Errorf("a field: %v", err)
	}
	if got := values(); got != `"x,x"` {
		t.Errorf("the fields have %s", got)
	}
}
