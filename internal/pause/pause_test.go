package pause

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := For(t.Context(), time.Minute); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("got %v after %v, want nothing after a minute", err, time.Since(begun))
		}
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		begun = time.Now()
		if err := For(ctx, time.Minute); !errors.Is(err, cause) || time.Since(begun) != time.Second {
			t.Errorf("got %v after %v, want %v after a second", err, time.Since(begun), cause)
		}
	})
}

func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := make(map[time.Time]int)
		for range 100 {
			d := Together(time.Minute)
			if d > time.Minute || d <= time.Minute-step {
				t.Errorf("a pause of %v, want a minute or less by less than %v", d, step)
			}
			ends[time.Now().Add(d)]++
			time.Sleep(10 * time.Millisecond) // fake time
		}
		if len(ends) != 5 && len(ends) != 4 {
			t.Errorf("pauses that begin within a second end at %d times, want 4 or 5", len(ends))
		}
		if d := Together(step / 2); d < 0 || d > step/2 {
			t.Errorf("a pause of %v, want between 0 and %v", d, step/2)
		}
	})
}
