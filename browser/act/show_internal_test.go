package act

import (
	"context"
	"testing"
)

// TestWatchersWait checks that Show takes no picture while a call of the agent has the
// turn, and that it returns its own turn (BR-A47).
func TestWatchersWait(t *testing.T) {
	seat := &Seat{turn: make(chan struct{}, 1), quit: make(chan struct{})}
	seat.turn <- struct{}{} // the turn of the agent
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := seat.Show(ctx); ReasonOf(err) != ReasonTimeout {
		t.Errorf("while a call runs: %v", err)
	}
	<-seat.turn
	if _, err := seat.Show(t.Context()); ReasonOf(err) != ReasonUnknown {
		t.Errorf("of a seat without a browser: %v", err)
	}
	if len(seat.turn) != 0 {
		t.Error("Show did not give its turn back")
	}
}
