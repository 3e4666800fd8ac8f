package server

import (
	"context"
	"sync"

	"belljar.dev/internal/closers"
)

// background returns what goes on beside requests until a server is closed: contexts that end then,
// the first of them with the parent as well, and a group for which the close waits. What
// also goes on while a server drains has the context lasting.
func background(parent context.Context, opened *closers.Stack) (ctx, lasting context.Context, running *sync.WaitGroup) {
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
