package server

import (
	"context"
	"fmt"
	"time"

	"belljar.dev/internal/pause"
)

// prepare checks the key of the audit log, and makes what all boxes need unless it is
// already made.
func prepare(s *Server) error {
	if err := s.audit.check(); err != nil {
		return err
	}
	if err := s.sandbox.Prepare(); err != nil {
		return unprepared(err)
	}
	return nil
}

func unprepared(err error) error {
	return fmt.Errorf("open the sandbox: %w; `belljar doctor` says what this host lacks and how to fix it", err)
}

// prepareAfter is the time for which the goroutine of preparing waits, so that the first
// answer, which takes about 12 ms, has the machine to itself. A call that needs a box before
// that prepares the sandbox itself.
const prepareAfter = 50 * time.Millisecond

// preparing runs prepare after prepareAfter, while the caller serves with the returned
// context. If prepare fails, that context ends. The caller must call wait exactly once: it
// ends the context, waits until prepare has returned, and returns the error of prepare, or
// nil if prepare had not begun.
func preparing(ctx context.Context, s *Server) (_ context.Context, wait func() error) {
	ctx, cancel := context.WithCancel(ctx)
	prepared := make(chan error, 1)
	go func() {
		if pause.For(ctx, prepareAfter) != nil {
			prepared <- nil
			return
		}
		err := prepare(s)
		if err != nil {
			cancel()
		}
		prepared <- err
	}()
	return ctx, func() error {
		cancel()
		return <-prepared
	}
}
