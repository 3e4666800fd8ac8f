package server

import (
	"context"
	"fmt"
	"time"

	"belljar.dev/internal/pause"
)

// prepare tries the key of the audit log and makes what all boxes need, unless that is done.
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

// prepareAfter is how long preparing leaves the machine to the first answer. A call that
// needs a box sooner does not wait for it.
const prepareAfter = 50 * time.Millisecond

// preparing runs prepare while the caller serves: the first answer does not wait for it.
// The context ends if that fails. The caller waits for the error, which says why nothing
// can be served.
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
