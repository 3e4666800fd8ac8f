package egress

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
)

// lentThing counts how often it was closed.
type lentThing struct{ closed int }

func (c *lentThing) Close() error { c.closed++; return nil }

func lendingGrant(t *testing.T, tenant string) policies.Grant {
	t.Helper()
	return policytest.GrantFor(t, "version: 1\ndefaults: {decision: allow}\nprofiles: {p: {net: {mode: proxy, allow: [a.example]}}}\n", policies.Facts{Tenant: tenant, Tool: "WebSearch"})
}

// A connection that is lent serves one tenant, for an hour, and is closed
// once.
func TestLoans(t *testing.T) {
	var l Loans[*lentThing]
	opened := 0
	take := func(g policies.Grant, at time.Time) *Loan[*lentThing] {
		t.Helper()
		one, err := l.Take(g, at, func() (*lentThing, error) { opened++; return new(lentThing), nil })
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	start := time.Unix(1e9, 0)
	a, b := lendingGrant(t, "a"), lendingGrant(t, "b")
	first := take(a, start)
	if take(a, start) != first || take(b, start) == first || opened != 2 {
		t.Errorf("%d were opened, want one for each of two tenants", opened)
	}
	later := start.Add(loanLife + 1)
	if take(a, later) == first || first.What.closed != 0 {
		t.Error("after an hour the same is lent, or what is used was closed")
	}
	l.Give(first)
	l.Give(first)
	if first.What.closed != 1 {
		t.Errorf("given back by its last user it was closed %d times, want 1", first.What.closed)
	}
	broken := errors.New("broken")
	if _, err := l.Take(lendingGrant(t, "c"), later, func() (*lentThing, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want what open says", err)
	}
}

func TestLoansAreBounded(t *testing.T) {
	var l Loans[*lentThing]
	open := func() (*lentThing, error) { return new(lentThing), nil }
	start := time.Unix(1e9, 0)
	var all []*Loan[*lentThing]
	for i := range loansMost {
		one, err := l.Take(lendingGrant(t, fmt.Sprintf("t%d", i)), start.Add(time.Duration(i)), open)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	more := lendingGrant(t, "more")
	if _, err := l.Take(more, start, open); !errors.Is(err, ErrCrowded) {
		t.Errorf("one too many: got %v, want %v", err, ErrCrowded)
	}
	l.Give(all[7])
	l.Give(all[3])
	if _, err := l.Take(more, start, open); err != nil || all[3].What.closed != 1 || all[7].What.closed != 0 {
		t.Errorf("got %v; the one that was not used for the longest time was closed %d times, another %d", err, all[3].What.closed, all[7].What.closed)
	}
	l.CloseIdle()
	if all[7].What.closed != 1 || all[0].What.closed != 0 {
		t.Error("CloseIdle closed another than what is idle")
	}
	if err := l.Close(); err != nil || all[0].What.closed != 1 {
		t.Errorf("close: %v, %d", err, all[0].What.closed)
	}
	if _, err := l.Take(more, start, open); !errors.Is(err, ErrClosed) || l.Close() != nil {
		t.Errorf("after close: got %v, want %v", err, ErrClosed)
	}
}
