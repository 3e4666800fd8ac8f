package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/control"
)

// TestHoldThatTakesLong checks that a person who stops an agent is not left with an error
// alone if the acts are stopped and only the wait for the last step has failed.
func TestHoldThatTakesLong(t *testing.T) {
	held := control.Browser{ID: "seat-1", HeldBy: "ann", HeldSince: time.Now()}
	state := controlled(t, map[string]any{"GET /browsers": []control.Browser{held}, "POST /browsers/seat-1/hold": errors.New("too slow"), "POST /browsers/seat-1/release": errors.New("too slow")})
	if code, _, errs := ran("browser", "hold", "seat-1", "--state", state); code != exitFailed || !strings.Contains(errs, "the acts in seat-1 are stopped, but the step that was under way may not have ended: too slow") {
		t.Errorf("hold: status %d, %q", code, errs)
	}
	if code, _, errs := ran("browser", "release", "seat-1", "--state", state); code != exitFailed || errs != "belljar: too slow\n" {
		t.Errorf("release: status %d, %q", code, errs)
	}
}
