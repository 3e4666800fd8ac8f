package act

import (
	"errors"
	"testing"
)

// TestEndsOfInput checks that a step is not reported as done if the next document kept the
// input from itself, and that the step does not say that nothing was done if the document
// before may have got some of the input.
func TestEndsOfInput(t *testing.T) {
	t.Parallel()
	missed := tally{Misses: 2}.lostFocus("it")
	if missed == "" || (tally{Hits: 2}).lostFocus("it") != "" {
		t.Fatalf("what was lost is told as %q", missed)
	}
	for name, c := range map[string]struct {
		became    tally
		err       error
		missed    string
		over, ran bool
		reason    Reason
	}{
		"all came":                   {became: tally{Hits: 2}},
		"it led to another document": {became: tally{Hits: 1, Left: true}, err: errLeft, over: true},
		"the next document kept all": {became: tally{Misses: 2, Left: true}, err: errLeft, missed: missed, over: true, ran: true, reason: ReasonNotReady},
		"the focus moved":            {became: tally{Misses: 2}, missed: missed, over: true, reason: ReasonNotReady},
		"the focus moved later":      {became: tally{Hits: 1, Misses: 1}, missed: missed, over: true, ran: true, reason: ReasonNotReady},
		"Chrome ended":               {err: errGone, over: true, ran: true, reason: ReasonCrashed},
	} {
		over, err := guard{&tab{}}.endOf(c.became, c.err, c.missed, "look again")
		got := Refusal{}
		if r, ok := errors.AsType[*Refusal](err); ok {
			got = *r
		}
		if over != c.over || got.Reason != c.reason || got.Ran != c.ran {
			t.Errorf("%s: over %v, %+v", name, over, got)
		}
	}
}
