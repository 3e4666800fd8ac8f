package report

import (
	"fmt"
	"testing"
	"time"

	"belljar.dev/policies"
)

// However many different changes a log shows, the number of groups is bounded.
func TestReplayIsBounded(t *testing.T) {
	r := NewReplay(nil, nil, 2)
	const calls, kinds = 10_000, 2500
	for i := range calls {
		c := Change{fmt.Sprintf("tool-%d", i%kinds), Side{Verdict: policies.Deny}, Side{Verdict: policies.Allow}}
		r.note(c, Example{CallID: fmt.Sprint(i), Time: time.Unix(int64(i), 0)})
	}
	r.Sort()
	listed := 0
	for _, g := range r.Changes {
		listed += g.Calls
		if len(g.Examples) > 2 {
			t.Fatalf("%s: %d examples", g.Tool, len(g.Examples))
		}
	}
	if len(r.Changes) != maxChanges || listed+r.Others != calls || r.Changed != calls {
		t.Errorf("got %d groups of %d calls and %d others of %d; want %d groups of %d calls in all", len(r.Changes), listed, r.Others, r.Changed, maxChanges, calls)
	}
}
