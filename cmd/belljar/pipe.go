package main

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// errClosedPipe is the cause of the end of a command whose reader has gone.
var errClosedPipe = errors.New("nobody reads standard output any more")

// pipe is standard output that another program may read. SIGPIPE does not end
// this program, whose boxes have to be closed first: a pipe notes that its reader
// has gone, and has the command end.
type pipe struct {
	out    io.Writer
	broken func()
	closed atomic.Bool
}

func (p *pipe) Write(text []byte) (int, error) {
	n, err := p.out.Write(text)
	if errors.Is(err, unix.EPIPE) && !p.closed.Swap(true) {
		p.broken()
	}
	return n, err
}

// ownsOutput reports whether arguments are those of a command that goes on after
// a closed pipe: to `serve` it means that a client leaves, and `run` has the
// command in the box notice it.
func ownsOutput(root *cobra.Command, args []string) bool {
	c, _, err := root.Find(args)
	return err == nil && slices.Contains([]string{serveName, "run"}, c.Name())
}
