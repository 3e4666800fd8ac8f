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

// stateName is the flag for the directory whose content outlives the program.
const stateName = "state"

// flagText returns the value of a flag, or "" if the command does not have the flag.
func flagText(c *cobra.Command, name string) string {
	if f := c.Flag(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// tellHeldBack prints which servers of this user still use an earlier policy because the
// file has faults: if name is empty, for any file; otherwise for the file with that name. A
// server that does not answer has ended.
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
