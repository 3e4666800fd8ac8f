package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/workspace"
)

// kept are the flags that all workspace commands share.
type kept struct {
	state  string
	asJSON bool
}

func (k *kept) flags(c *cobra.Command) {
	c.Flags().StringVar(&k.state, "state", "", "`directory` for what outlives the program (default: $XDG_STATE_HOME/belljar)")
	c.Flags().BoolVar(&k.asJSON, "json", false, "print JSON for programs")
}

// with opens the store of workspaces, calls use with it, and closes it.
func (k *kept) with(use func(s *workspace.Store) error) error {
	state, err := config.KnownState(k.state)
	if err != nil {
		return failure(err)
	}
	s, err := workspace.Open(filepath.Join(state, sandbox.WorkspacesDir))
	if err != nil {
		return failure(err)
	}
	err = use(s)
	if closeErr := s.Close(); err == nil {
		err = failure(closeErr)
	}
	return err
}

// changeLine returns a change as one line for people.
func changeLine(c *workspace.Change) string {
	line := marks[c.Kind] + " " + workspace.Quote(c.Path)
	if c.Type == "directory" {
		line += "/"
	}
	if c.Target != "" && c.Kind != workspace.Deleted {
		line += " -> " + workspace.Quote(c.Target)
	}
	if c.Conflict != "" {
		line += "  (" + c.Conflict + ")"
	}
	if c.Problem != "" {
		line += "  (" + c.Problem + ")"
	}
	if c.Dropped != "" {
		line += "  (" + c.Dropped + ")"
	}
	return line
}
