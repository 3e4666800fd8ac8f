package main

import (
	"github.com/spf13/cobra"

	"belljar.dev/internal/server"
)

// hookFlags adds the flags for the hooks that a command runs.
func hookFlags(c *cobra.Command, h *server.Hooks) {
	c.Flags().StringArrayVar(&h.Folders, "hooks", nil, "`directory` of hooks, which run in a box; may be repeated (default: $XDG_CONFIG_HOME/belljar/hooks)")
	c.Flags().StringArrayVar(&h.OnHost, "trust-hook", nil, "run the hook `EVENT/NAME` outside any box, with your rights on this machine; may be repeated")
	c.Flags().StringArrayVar(&h.Trusted, "trust-hooks", nil, "")
	_ = c.Flags().MarkHidden("trust-hooks") // the flag has just been added
}
