package fetch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnThatIsGivenUp: a call whose context ends while it waits for its turn takes no turn
// of a later call.
func TestTurnThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(1)
		turn := func(ctx context.Context) (wait time.Duration, err error) {
			err = h.turn(ctx, "a.example", func(d time.Duration) { wait = d })
			return wait, err
		}
		if wait, err := turn(t.Context()); wait != 0 || err != nil {
			t.Fatalf("the first turn: %v, %v", wait, err)
		}
		for range 30 {
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan error)
			go func() { _, err := turn(ctx); gone <- err }()
			synctest.Wait()
			cancel()
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Fatalf("a call that was cancelled: %v", err)
			}
		}
		if wait, err := turn(t.Context()); wait > time.Second || err != nil {
			t.Errorf("after 30 calls that were cancelled: %v, %v, want at most half a second", wait, err)
		}
	})
}

// TestTurnThatIsTooFar: a call that cannot have its turn in time is refused, with a time
// after which the turn is possible.
func TestTurnThatIsTooFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(1)
		if err := h.turn(t.Context(), "a.example", nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		e, ok := errors.AsType[*Error](h.turn(ctx, "a.example", nil))
		if !ok || e.Kind != KindBusy || !strings.Contains(e.Message, "did not send this one") || !strings.HasSuffix(e.Instead, "in 1s") {
			t.Errorf("got %+v", e)
		}
	})
	for wait, want := range map[time.Duration]time.Duration{0: time.Second, 400 * time.Millisecond: time.Second, time.Second: time.Second, 10400 * time.Millisecond: 11 * time.Second} {
		if got := wholeSeconds(wait); got != want {
			t.Errorf("%v: got %v, want %v", wait, got, want)
		}
	}
}
