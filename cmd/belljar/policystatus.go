package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
)

// stateName is the flag of the directory for what outlives the program.
const stateName = "state"

// flagText is what the command line says of a flag that the command may have.
func flagText(c *cobra.Command, name string) string {
	if f := c.Flag(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// tellHeldBack says which servers of this user go on with a policy that they
// read before: those of a file that has faults, or of any file that they found
// some in where name is empty. Servers that do not answer have ended.
func tellHeldBack(ctx context.Context, w io.Writer, state, name string) {
	dir, err := config.FindState(state)
	if err != nil {
		return
	}
	clients, err := control.Clients(dir)
	if err != nil {
		return // no server can be asked
	}
	for _, c := range clients {
		var i control.Policy
		if c.Ask(ctx, http.MethodGet, "/policy", nil, &i) != nil || i.File == "" {
			continue
		}
		abs, err := filepath.Abs(name)
		if name == "" && i.Refused != "" || name != "" && err == nil && config.RealPath(abs) == config.RealPath(i.File) {
			fmt.Fprintln(w, i)
		}
	}
}
