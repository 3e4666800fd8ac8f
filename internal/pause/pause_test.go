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
