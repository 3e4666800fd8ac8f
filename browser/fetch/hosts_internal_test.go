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

// TestTurnsThatAreGivenUpTogether: calls that give up while later calls wait take no turn of
// the later ones either.
func TestTurnsThatAreGivenUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(1)
		if err := h.turn(t.Context(), "a.example", nil); err != nil {
			t.Fatal(err)
		}
		const calls = 12
		wait := func(ctx context.Context, ended chan<- error) {
			go func() { ended <- h.turn(ctx, "a.example", func(time.Duration) {}) }()
			synctest.Wait()
		}
		var cancels []context.CancelFunc
		gone := make(chan error, calls)
		for range calls {
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			wait(ctx, gone)
		}
		last := make(chan error, 1)
		wait(t.Context(), last)
		for _, cancel := range cancels {
			cancel()
			synctest.Wait()
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Fatalf("a call that was cancelled: %v", err)
			}
		}
		started := time.Now()
		if err := <-last; err != nil || time.Since(started) > time.Second {
			t.Errorf("the call that waited behind %d calls that were cancelled: %v after %v, want at most half a second", calls, err, time.Since(started))
		}
		var wants time.Duration
		if err := h.turn(t.Context(), "a.example", func(d time.Duration) { wants = d }); err != nil || wants > time.Second {
			t.Errorf("a call after %d calls that were cancelled: %v, %v, want at most half a second", calls, wants, err)
		}
	})
}

// TestTurnsKeepTheRate: calls that wait together get their turns in order, at the rate of the
// host, and at the time that they were told.
func TestTurnsKeepTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(1)
		started := time.Now()
		const calls = 8
		turns := make(chan [2]time.Duration, calls)
		for range calls {
			go func() {
				var told time.Duration
				if err := h.turn(t.Context(), "a.example", func(d time.Duration) { told = d }); err != nil {
					t.Error(err)
				}
				turns <- [2]time.Duration{told, time.Since(started)}
			}()
			synctest.Wait()
		}
		for i := range calls {
			want := time.Duration(i) * time.Second / hostRate
			got := <-turns
			for _, d := range got {
				if (d - want).Abs() > time.Millisecond {
					t.Errorf("call %d: told and turn are %v, want %v", i, got, want)
				}
			}
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
