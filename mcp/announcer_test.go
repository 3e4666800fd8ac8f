package mcp

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A list that changes all the time is announced at most six times in a minute, the first
// time after a second. A last change is always announced.
func TestAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		st := newSessionTable(&Config{})
		a := &announcer{enter: st.enter, leave: st.wg.Done, announce: func() { at = append(at, time.Since(began)) }}
		for range 10_000 {
			a.changed()
			time.Sleep(time.Minute / 10_000 * 2)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := fmt.Sprint(at); got != "[1s 2.008s 3.016s 4.024s 5.032s 6.04s 1m1s 1m2.008s 1m3.016s 1m4.024s 1m5.032s 1m6.04s 2m1s]" {
			t.Errorf("announced after %s", got)
		}
		for i := range at {
			if i >= announceMost && at[i]-at[i-announceMost] < announceWithin {
				t.Errorf("more than %d within a minute: %v", announceMost, at[i-announceMost:i+1])
			}
		}
		at = nil
		a.changed()
		a.stop()
		a.changed()
		time.Sleep(time.Hour)
		if len(at) != 0 {
			t.Error("a server that ends announces a change")
		}
	})
}
