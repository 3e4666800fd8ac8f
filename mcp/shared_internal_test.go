package mcp

import (
	"slices"
	"strings"
	"testing"

	"belljar.dev/mcp/wire"
)

// crowd contains the requests of several tenants that share one hall.
type crowd struct {
	*Shared
	t       *testing.T
	order   []string // tenants of the requests that have started, in order
	running []func() // functions that end the running requests, the oldest first
}

func (c *crowd) ask(tenant string) *wire.Error {
	door := c.door(tenant, Limits{Running: 64}.withDefaults())
	ticket := &ticket{n: 1, bytes: 1}
	ticket.start = func() {
		c.order = append(c.order, tenant)
		c.running = append(c.running, func() { door.leave(ticket) })
	}
	return door.ask(ticket)
}

// leave ends the oldest request that runs.
func (c *crowd) leave() {
	first := c.running[0]
	c.running = c.running[1:]
	first()
}

// Many waiting requests of one tenant do not keep the requests of others out: if all places
// are taken, each tenant gets its turn.
func TestTenantsTakeTurns(t *testing.T) {
	c := &crowd{Shared: NewShared(4), t: t}
	for range 100 {
		if bad := c.ask("greedy"); bad != nil {
			t.Fatal(bad)
		}
	}
	if len(c.order) != 4 {
		t.Fatalf("%d requests run at once, want 4", len(c.order))
	}
	for _, tenant := range []string{"b", "c", "b"} {
		if bad := c.ask(tenant); bad != nil {
			t.Fatal(bad)
		}
	}
	c.order = nil
	for range 8 {
		c.leave()
	}
	if want := []string{"greedy", "b", "c", "greedy", "b", "greedy", "greedy", "greedy"}; !slices.Equal(c.order, want) {
		t.Errorf("the turns are %v, want %v", c.order, want)
	}
	for len(c.running) > 0 {
		c.leave()
	}
	if n := len(c.order); n != 99 { // 99 of 103: four ran before
		t.Errorf("%d requests have run in all, want 99", n)
	}
	if c.hall.running != 0 || len(c.hall.waiting) != 0 {
		t.Errorf("%d run and %d wait after the last", c.hall.running, len(c.hall.waiting))
	}
	if u := c.Used("greedy"); u != (TenantUsage{}) {
		t.Errorf("a tenant without requests uses %+v", u)
	}
}

// A request that is withdrawn while it waits leaves its turn to others.
func TestWithdrawnTurns(t *testing.T) {
	c := &crowd{Shared: NewShared(1), t: t}
	if bad := c.ask("a"); bad != nil {
		t.Fatal(bad)
	}
	door, gone := c.door("b", Limits{}.withDefaults()), &ticket{n: 1, start: func() { t.Error("a request that gave up has run") }}
	if bad := door.ask(gone); bad != nil {
		t.Fatal(bad)
	}
	if bad := c.ask("c"); bad != nil {
		t.Fatal(bad)
	}
	if !door.withdraw(gone) {
		t.Fatal("a request that waits cannot give up")
	}
	c.leave()
	if want := []string{"a", "c"}; !slices.Equal(c.order, want) {
		t.Errorf("the turns are %v, want %v", c.order, want)
	}
	c.leave()
	if bad := c.ask("b"); bad != nil || len(c.order) != 3 {
		t.Errorf("an empty hall lets nobody in: %v, %v", bad, c.order)
	}
}

// Streams and sessions of a tenant are counted once for all servers of a process.
func TestQuotasAreShared(t *testing.T) {
	shared := NewShared(0)
	for i := range 3 {
		if got, want := shared.take(quotaStreams, "a", 2), i < 2; got != want {
			t.Errorf("stream %d: %v, want %v", i, got, want)
		}
	}
	if !shared.take(quotaStreams, "b", 2) || !shared.take(quotaSessions, "a", 2) {
		t.Error("what one tenant has taken of one quota counts for another")
	}
	shared.giveBack(quotaStreams, "a")
	if !shared.take(quotaStreams, "a", 2) {
		t.Error("what was given back cannot be taken")
	}
	c := &Config{HTTP: HTTP{Shared: shared}}
	for range DefaultStreams {
		if _, bad := c.stream("local"); bad != nil {
			t.Fatal(bad)
		}
	}
	if _, bad := c.stream("local"); bad == nil || !strings.Contains(bad.Error(), "quota streams") {
		t.Errorf("got %v, want the name of the quota", bad)
	}
}
