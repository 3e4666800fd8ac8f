package server

import (
	"context"
	"sync"

	"belljar.dev/internal/closers"
)

// lifetime returns the contexts and the group of what runs until a server is closed: ctx ends with
// parent or with the close, lasting with the close only, for work that goes on during a drain. The
// close ends both and waits for running.
func lifetime(parent context.Context, opened *closers.Stack) (ctx, lasting context.Context, running *sync.WaitGroup) {
	lasting, end := context.WithCancel(context.WithoutCancel(parent))
	ctx, cancel := context.WithCancel(parent)
	running = new(sync.WaitGroup)
	opened.Do(func() {
		cancel()
		end()
		running.Wait()
	})
	return ctx, lasting, running
}
