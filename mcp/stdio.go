package mcp

import (
	"context"
	"io"
)

// ServeStdio serves one client until in ends, ctx ends or Shutdown is called. It then waits
// at most Limits.Drain until running calls are answered, and cancels the rest. It closes
// in. The error is nil if the client or the operator ended the conversation.
//
// A stream that blocks for ever in spite of Close, as a terminal can, or a handler that
// ignores its context, does not keep ServeStdio from returning; a goroutine then stays
// behind.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.Writer) error {
	stopped := make(chan struct{})
	c, err := s.begin(ctx, &link{
		transport: "stdio", out: out, halves: true,
		read: func(g *guard) error {
			read := make(chan error, 1)
			go func() { read <- readLines(g, in) }()
			select {
			case err := <-read:
				return err
			case <-stopped:
				return nil
			}
		},
		stop: func(error, error) {
			in.Close()
			close(stopped)
		},
	})
	if err == nil {
		_, err = c.run()
	}
	return err
}
