package hooks

import (
	"context"
	"errors"

	"belljar.dev/internal/hostexec"
)

// Host runs hooks outside a box, under the user of this process.
type Host struct {
	// Program returns the part that all programs outside a box share: the directory, the
	// variables that they get, and what boxes can write now. It is called for each hook.
	Program   func() hostexec.Program
	Workspace string // path of the workspace in the variables of a hook
}

// Run runs a hook to its end, and ends the processes that the hook started.
func (h Host) Run(ctx context.Context, c Command) (code int, err error) {
	p := h.Program()
	// The event's words follow the text, and may be anything.
	p.Argv, p.Data, p.Sources = c.Argv[:1], c.Argv[1:], []string{c.Path}
	p.Env, p.Stdin, p.Timeout = c.Environ(h.Workspace), c.Stdin, c.Timeout
	p.Stdout, p.Stderr, p.Output = c.Out, c.Err, MaxOutput
	code, err = hostexec.Run(ctx, p)
	if errors.Is(err, hostexec.ErrNotFound) {
		return 0, errors.New(c.Argv[0] + " is not on this machine")
	}
	return code, err
}
