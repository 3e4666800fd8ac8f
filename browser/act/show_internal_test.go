package act

import (
	"context"
	"testing"
)

// TestWatchersWait: a person who watches takes no picture while a call of the agent runs (BR42, BR-A47).
func TestWatchersWait(t *testing.T) {
	seat := &Seat{turn: make(chan struct{}, 1), quit: make(chan struct{})}
	seat.turn <- struct{}{} // of the agent
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		if _, err := seat.Show(ctx); ReasonOf(err) != ReasonTimeout {
			t.Fatalf("while a call runs: %v", err)
		}
	}
	<-seat.turn
	if _, err := seat.Show(t.Context()); ReasonOf(err) != ReasonUnknown {
		t.Errorf("of a seat without a browser: %v", err)
	}
	if len(seat.turn) != 0 {
		t.Error("the turn of the agent is kept")
	}
}
