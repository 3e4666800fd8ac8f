package gateway

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Whoever has given a call up does not wait for a list that a server keeps back.
func TestReadingIsGivenUp(t *testing.T) {
	c := &conn{reading: make(chan struct{}, 1)}
	c.reading <- struct{}{} // another call reads
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
