package mcp

import (
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// TestTicketsAndTheClock checks that setting the system clock does not change how long a
// ticket is valid.
func TestTicketsAndTheClock(t *testing.T) {
	for name, tt := range map[string]struct {
		set, after time.Duration
		good       bool
	}{
		"set forward": {time.Hour, ticketLife - time.Second, true},
		"set back":    {-time.Hour, ticketLife + time.Second, false},
	} {
		tickets, now := NewTickets(), time.Now()
		tickets.now = func() time.Time { return now }
		ticket, bad := tickets.issue(nil, "", "/mcp")
		if bad != nil {
			t.Fatal(bad)
		}
		now = testenv.SetClock(now, tt.set, tt.after)
		if _, good := tickets.redeem(ticket, "", "/mcp"); good != tt.good {
			t.Errorf("%s: it is good after %v: %t", name, tt.after, good)
		}
	}
}
