package server

import (
	"context"
	"sync"

	"belljar.dev/internal/closers"
)

// lifetime returns two contexts and a group for work that runs until a server is closed.
// ctx ends with parent, or when the server is closed. lasting ends only when the server is
// closed; it is for work that continues during a drain. The close ends both contexts, and
// waits for running.
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
