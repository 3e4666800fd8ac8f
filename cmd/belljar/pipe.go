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

// pipe is standard output that another program may read. SIGPIPE does not end this program,
// whose boxes must be closed first: instead, a pipe notes that its reader has gone, and
// ends the command.
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

// ownsOutput reports whether the arguments are for a command that continues after a closed
// pipe: for `serve` it means that a client disconnects, and for `run` the command in the
// box notices it.
func ownsOutput(root *cobra.Command, args []string) bool {
	c, _, err := root.Find(args)
	return err == nil && slices.Contains([]string{serveName, "run"}, c.Name())
}
