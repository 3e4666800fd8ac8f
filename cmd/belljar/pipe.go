package main

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// errClosedPipe is the cause with which a command ends when its reader has gone.
var errClosedPipe = errors.New("the reader of standard output has gone")

// pipe is standard output in a file, or that another program reads. SIGPIPE does not end
// this program, whose boxes must be closed first: instead, a pipe notes that its reader has
// gone, and ends the command. It keeps the first other error too, for example of a full
// disk.
type pipe struct {
	out    io.Writer
	broken func()
	closed atomic.Bool
	failed atomic.Pointer[error]
}

func (p *pipe) Write(text []byte) (int, error) {
	n, err := p.out.Write(text)
	switch {
	case errors.Is(err, unix.EPIPE):
		if !p.closed.Swap(true) {
			p.broken()
		}
	case err != nil:
		p.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// ownsOutput reports whether the arguments are for a command that continues after a closed
// pipe: for `serve` it means that a client disconnects, and for `run` the command in the
// box notices it.
func ownsOutput(root *cobra.Command, args []string) bool {
	c, _, err := root.Find(args)
	return err == nil && slices.Contains([]string{serveName, "run"}, c.Name())
}
