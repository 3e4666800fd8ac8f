package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// workspaceMode is --workspace-mode: what a person allows at most of what a
// profile says about the workspace. The zero value is all of it.
type workspaceMode string

const modes = "bind, overlay or none"

func (m *workspaceMode) flag(c *cobra.Command) {
	c.Flags().Var(m, "workspace-mode", "what boxes get of the workspace, at most what the profile says: "+modes+" (default: as the profile says)")
}

// String is the flag's text.
func (m *workspaceMode) String() string { return string(*m) }

// Type names the flag's value in the help.
func (m *workspaceMode) Type() string { return "MODE" }

// Set reads the flag.
func (m *workspaceMode) Set(text string) error {
	switch text {
	case "bind", "overlay", "none":
		*m = workspaceMode(text)
		return nil
	}
	return fmt.Errorf("got %q, want %s", text, modes)
}

// narrow is a decision under the mode: a grant that the mode would widen is
// refused.
func (m *workspaceMode) narrow(d policies.Decision) policies.Decision {
	if *m == "" {
		return d
	}
	narrowed, err := d.With(func(g policies.Grant) (policies.Grant, error) {
		to := g.Workspace()
		switch *m {
		case "none":
			to = policies.AccessNone
		case "overlay":
			to = policies.AccessOverlay
		case "bind":
			if to != policies.AccessRead {
				to = policies.AccessWrite
			}
		}
		return g.Narrow(to)
	})
	if err != nil {
		return policies.Decision{
			Verdict: policies.Deny, Rule: "workspace-mode", Reason: err.Error(),
			Instead: "Tell the person you work for to start belljar without --workspace-mode " + string(*m) + ", or with a profile that allows it.",
		}
	}
	return narrowed
}

// callsFlag is --checkpoint-calls.
func (s *setup) callsFlag(c *cobra.Command) {
	c.Flags().BoolVar(&s.calls, "checkpoint-calls", false, "with an overlay workspace, make a checkpoint after each command that changed it, named call-1, call-2 and so on; belljar workspace rollback returns to one")
}

// checkpoint makes the checkpoint of a command that ran by itself.
func (w *works) checkpoint(ctx context.Context, box *sandbox.Box, command string) {
	if _, err := box.Checkpoint(ctx, command); err != nil {
		w.log.Warn("no checkpoint was made", "err", err)
	}
}
