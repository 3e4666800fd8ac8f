package server

import (
	"fmt"
	"testing"
	"time"

	"belljar.dev/internal/console"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// Calls are counted by minute for an hour, and by rule.
func TestCallCounts(t *testing.T) {
	clock := time.Date(2026, 11, 24, 12, 0, 30, 0, time.UTC)
	n := newCallCounts(func() time.Time { return clock })
	call := func(rule string, v policies.Verdict) {
		n.count("a", policies.Decision{Rule: rule, Verdict: v, Source: policies.Source{File: "p.yaml", Line: 3}})
	}
	sum := func() (minutes, allow, ask, deny int) {
		c := n.Calls(console.Everything())
		for i := range c.Minute {
			if i > 0 && c.Minute[i].Sub(c.Minute[i-1]) != time.Minute {
				t.Fatalf("%v follows %v", c.Minute[i], c.Minute[i-1])
			}
			allow, ask, deny = allow+c.Allow[i], ask+c.Ask[i], deny+c.Deny[i]
		}
		return len(c.Minute), allow, ask, deny
	}
	want := func(what string, want ...int) {
		t.Helper()
		a, b, c, d := sum()
		if got := []int{a, b, c, d}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v (minutes, allow, ask, deny)", what, got, want)
		}
	}
	want("before a call", 1, 0, 0, 0)
	call("a", policies.Allow)
	call("a", policies.Allow)
	call("b", policies.Deny)
	n.Traced(mcp.Traced{}) // the policy has not decided about this call
	want("in the first minute", 1, 2, 0, 1)
	clock = clock.Add(10 * time.Minute)
	call("c", policies.Ask)
	want("ten minutes later", 11, 2, 1, 1)
	clock = clock.Add(49 * time.Minute)
	want("in the last minute of the hour", 60, 2, 1, 1)
	clock = clock.Add(time.Minute)
	want("after an hour", 60, 0, 1, 0)
	clock = clock.Add(1000 * time.Hour)
	want("after long", 60, 0, 0, 0)
	call("b", policies.Deny)
	want("and then", 60, 0, 0, 1)
	if r := n.Rules(); len(r) != 3 || r[0].ID != "a" || r[0].Calls != 2 || r[1].ID != "b" || !r[1].Last.Equal(clock) || r[2].Line != 3 {
		t.Errorf("rules: %+v", r)
	}
	for i := range 2 * maxRules {
		call(fmt.Sprint(i), policies.Allow)
	}
	if r := n.Rules(); len(r) != maxRules {
		t.Errorf("%d rules are counted, want %d", len(r), maxRules)
	}
}

// A person with a scope of some tenants gets only the counts of these tenants. A tenant
// without a call within the last hour is removed.
func TestCallCountsOfTenants(t *testing.T) {
	clock := time.Date(2026, 11, 24, 12, 0, 30, 0, time.UTC)
	n := newCallCounts(func() time.Time { return clock })
	for tenant, calls := range map[string]int{"a": 1, "b": 2, "c": 4} {
		for range calls {
			n.count(tenant, policies.Decision{Rule: "r", Verdict: policies.Allow})
		}
	}
	for _, tt := range []struct {
		scope console.Scope
		want  int
	}{{console.Everything(), 7}, {console.ScopeOf([]string{"a", "c"}), 5}, {console.ScopeOf([]string{"nosuch"}), 0}, {console.Scope{}, 0}} {
		if c := n.Calls(tt.scope); c.Allow[len(c.Allow)-1] != tt.want {
			t.Errorf("%s: %v, want %d", tt.scope, c.Allow, tt.want)
		}
	}
	clock = clock.Add(2 * time.Hour)
	if n.Calls(console.Everything()); len(n.minutes) != 0 {
		t.Errorf("after two hours, %d tenants are kept", len(n.minutes))
	}
}
