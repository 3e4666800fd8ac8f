package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"belljar.dev/internal/server"
)

// workspaceMode is the value of --workspace-mode.
type workspaceMode server.Mode

const modes = "bind, overlay or none"

func (m *workspaceMode) flag(c *cobra.Command) {
	c.Flags().Var(m, "workspace-mode", "what boxes get of the workspace, at most what the profile says: "+modes+" (default: as the profile says)")
}

// String returns the text of the flag.
func (m *workspaceMode) String() string { return string(*m) }

// Type returns the word for the flag's value in the help.
func (m *workspaceMode) Type() string { return "MODE" }

// Set parses the value of the flag.
func (m *workspaceMode) Set(text string) error {
	switch mode := server.Mode(text); mode {
	case server.ModeBind, server.ModeOverlay, server.ModeNone:
		*m = workspaceMode(mode)
		return nil
	}
	return fmt.Errorf("got %q, want %s", text, modes)
}
