package server

import (
	"strings"
	"sync"
	"time"

	"belljar.dev/internal/console"
	"belljar.dev/internal/order"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// maxRules is the most rules that are counted. No person writes a policy with more rules.
const maxRules = 1000

// callCounts counts calls for the console: by minute, and by the rule that decided. It is
// safe for concurrent use.
type callCounts struct {
	now func() time.Time

	mu      sync.Mutex
	began   time.Time                    // guarded by mu: minute in which counting began
	minutes map[string]*minutes          // guarded by mu: counts by minute, by tenant
	last    time.Time                    // guarded by mu: latest minute
	rules   map[ruleKey]*console.RuleUse // guarded by mu
}

// minutes contains numbers of calls, at the indexes of minuteAt and verdictAt.
type minutes [console.Minutes][3]int

// ruleKey identifies a rule of a policy.
type ruleKey struct {
	id string
	at policies.Source
}

func newCallCounts(now func() time.Time) *callCounts {
	minute := now().UTC().Truncate(time.Minute)
	return &callCounts{now: now, began: minute, last: minute, minutes: make(map[string]*minutes), rules: make(map[ruleKey]*console.RuleUse)}
}

// Traced counts a call that has ended, if the policy has decided about it.
func (n *callCounts) Traced(c mcp.Traced) {
	if c.Decision.Rule != "" {
		n.count(c.Call.Session.Tenant(), c.Decision)
	}
}

// count counts a decision about a call of a tenant.
func (n *callCounts) count(tenant string, d policies.Decision) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now().UTC()
	n.turn(now)
	of := n.minutes[tenant]
	if of == nil { // the number of tenants is bounded, because the policy names all of them
		of = new(minutes)
		n.minutes[tenant] = of
	}
	of[minuteAt(n.last)][verdictAt(d.Verdict)]++
	key := ruleKey{d.Rule, d.Source}
	use := n.rules[key]
	if use == nil {
		if len(n.rules) >= maxRules {
			return
		}
		use = &console.RuleUse{ID: d.Rule, File: d.Source.File, Line: d.Source.Line}
		n.rules[key] = use
	}
	use.Calls++
	use.Last = now
}

// turn clears the minutes that have begun since the last call. The caller holds n.mu.
func (n *callCounts) turn(now time.Time) {
	minute := now.Truncate(time.Minute)
	for i := 0; n.last.Before(minute) && i < console.Minutes; i++ {
		n.last = n.last.Add(time.Minute)
		for tenant, of := range n.minutes {
			of[minuteAt(n.last)] = [3]int{}
			if *of == (minutes{}) { // no call within the hour
				delete(n.minutes, tenant)
			}
		}
	}
	if n.last.Before(minute) { // an hour or more without a call: all minutes are cleared
		n.last = minute
	}
}

// minuteAt returns the index of a minute: its number modulo console.Minutes.
func minuteAt(minute time.Time) int { return int(minute.Unix() / 60 % console.Minutes) }

// verdictAt returns the index of a verdict.
func verdictAt(v policies.Verdict) int {
	switch v {
	case policies.Allow:
		return 0
	case policies.Ask:
		return 1
	case policies.Deny:
	}
	return 2
}

// Calls returns the numbers of calls by minute, for the last hour or since the server
// began, for the tenants that a scope sees.
func (n *callCounts) Calls(s console.Scope) console.Calls {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turn(n.now().UTC())
	out := console.Calls{Minute: []time.Time{}, Allow: []int{}, Ask: []int{}, Deny: []int{}}
	first := n.last.Add(-(console.Minutes - 1) * time.Minute)
	if first.Before(n.began) {
		first = n.began
	}
	for m := first; !m.After(n.last); m = m.Add(time.Minute) {
		var at [3]int
		for tenant, of := range n.minutes {
			if s.Sees(tenant) {
				for i, calls := range of[minuteAt(m)] {
					at[i] += calls
				}
			}
		}
		out.Minute, out.Allow = append(out.Minute, m), append(out.Allow, at[0])
		out.Ask, out.Deny = append(out.Ask, at[1]), append(out.Deny, at[2])
	}
	return out
}

// Rules returns the rules that have decided calls, the most frequent rules first.
func (n *callCounts) Rules() []console.RuleUse {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]console.RuleUse, 0, len(n.rules))
	for _, use := range n.rules {
		all = append(all, *use)
	}
	order.By(all, func(a, b *console.RuleUse) int {
		if a.Calls != b.Calls {
			return b.Calls - a.Calls
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all
}
