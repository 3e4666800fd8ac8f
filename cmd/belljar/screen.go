package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"belljar.dev/internal/printable"
	"belljar.dev/policies/audit"
	"belljar.dev/sandbox"
)

// screen is the terminal that run connects to a command. The zero value stands for
// a run without a terminal.
type screen struct{ in, out *os.File }

// newScreen returns the terminal if both input and output are terminals. If either is
// redirected, the command gets pipes, like any command of a shell.
func newScreen(c *cobra.Command) screen {
	in, isIn := c.InOrStdin().(*os.File)
	out, isOut := printable.Raw(c.OutOrStdout()).(*os.File)
	if !isIn || !isOut || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return screen{}
	}
	return screen{in, out}
}

// size returns the terminal's size, or nil without a terminal.
func (s screen) size() *sandbox.Size {
	if s.out == nil {
		return nil
	}
	columns, rows, err := term.GetSize(int(s.out.Fd()))
	if err != nil {
		return nil
	}
	return &sandbox.Size{Rows: rows, Columns: columns}
}

// shape returns what a recording says about the terminal.
func (s screen) shape() audit.Screen {
	size := s.size()
	if size == nil {
		return audit.Screen{}
	}
	return audit.Screen{Width: size.Columns, Height: size.Rows, Term: os.Getenv("TERM")}
}

// env returns variables that tell the command what kind of terminal it has.
func (s screen) env() map[string]string {
	if kind := os.Getenv("TERM"); s.out != nil && kind != "" {
		return map[string]string{"TERM": kind}
	}
	return nil
}

// raw passes every key on to the command, whose own terminal turns some keys into signals.
// restore restores the state of the terminal.
func (s screen) raw() (restore func(), err error) {
	if s.in == nil {
		return func() {}, nil
	}
	before, err := term.MakeRaw(int(s.in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("prepare terminal: %w", err)
	}
	return func() { _ = term.Restore(int(s.in.Fd()), before) }, nil
}

// atTerminal reports whether a person immediately sees what is written to errs. In a file,
// a pipe or the journal, a text for people would be between the records. (JOURNAL_STREAM
// cannot decide that: programs on a terminal inherit it from a desktop session whose own
// standard error is the journal, systemd.exec(5).)
func atTerminal(errs io.Writer) bool { return isTerminal(printable.Raw(errs)) }

// isTerminal reports whether a person immediately sees what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
