package gateway

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// GW-A49: if a server announces changes all the time, or whenever its lists are read, they
// are read at most six times in a minute, and the last change is not lost.
func TestListsAreReadRarely(t *testing.T) {
	for name, announces := range map[string]func(c *conn){
		"all the time": func(c *conn) {
			for range 10_000 {
				c.again()
				time.Sleep(5 * time.Minute / 10_000)
			}
		},
		"whenever they are read": func(c *conn) {
			c.again()
			time.Sleep(5 * time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &conn{changed: make(chan struct{}, 1)}
				ctx, cancel := context.WithCancel(t.Context())
				over := make(chan struct{})
				var at []time.Time // times of the reads
				go func() {
					defer close(over)
					c.follow(ctx, func(context.Context) error {
						at = append(at, time.Now())
						if name != "all the time" && ctx.Err() == nil {
							c.again()
						}
						return nil
					})
				}()
				announces(c)
				last := time.Now()
				time.Sleep(2 * listsWindow)
				cancel()
				<-over
				if n := len(at); n < 5*listsMost || at[n-1].Before(last) {
					t.Fatalf("%d reads, the last of them %v before the last change", n, last.Sub(at[n-1]))
				}
				for i := listsMost; i < len(at); i++ {
					if took := at[i].Sub(at[i-listsMost]); took < listsWindow {
						t.Fatalf("%d reads within %v", listsMost+1, took)
					}
				}
			})
		})
	}
}

// A caller that has given up does not wait for a list that a server does not send.
func TestReadingIsGivenUp(t *testing.T) {
	c := &conn{reading: make(chan struct{}, 1)}
	c.reading <- struct{}{} // another call is reading
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan error, 1)
	go func() { done <- c.read(ctx) }()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
}
