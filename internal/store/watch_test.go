package store

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestStopEndsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Watch
		looks := 0
		var failure error
		look := func() (bool, error) { looks++; return false, failure }
		ended := make(chan error)
		begun := time.Now()
		go func() { ended <- w.Until(t.Context(), "a", time.Hour, look) }()
		synctest.Wait()
		w.Stop()
		if err := <-ended; err != nil || looks != 2 {
			t.Errorf("who waited: got %v after %d looks, want nil after 2", err, looks)
		}
		if err := w.Until(t.Context(), "b", time.Hour, look); err != nil || looks != 3 {
			t.Errorf("after Stop: got %v after %d looks, want nil after one more", err, looks)
		}
		failure = errors.New("broken")
		if err := w.Until(t.Context(), "c", time.Hour, look); !errors.Is(err, failure) {
			t.Errorf("after Stop: got %v, want %v", err, failure)
		}
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("waited %v, want no time", waited)
		}
	})
}
