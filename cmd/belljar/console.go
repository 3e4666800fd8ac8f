package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/internal/console"
	"belljar.dev/internal/control"
)

func consoleCommand() *cobra.Command {
	var state, role string
	var asJSON bool
	c := &cobra.Command{
		Use:   "console",
		Short: "print a link to the page of a running server",
		Long: `console prints the link by which a person logs in, once and within a minute, at
the console of each server of this user that was started with --console. The page
shows what waits for an answer, and what the server does; docs/console.md says more.

  belljar serve --console 127.0.0.1:8931
  belljar console
  belljar console --role viewer     the page changes nothing
` + exitHelp,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return printLinks(c, state, role, asJSON) },
	}
	c.Flags().StringVar(&state, stateName, "", "state `directory` of the servers (default: $XDG_STATE_HOME/belljar)")
	c.Flags().StringVar(&role, "role", console.Operator.String(), "what the page may do: `viewer`, approver or operator")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// printLinks asks each server that has a console for a link.
func printLinks(c *cobra.Command, stateFlag, role string, asJSON bool) error {
	if _, err := console.ParseRole(role); err != nil {
		return usage("console: --role: %w", err)
	}
	state, err := config.KnownState(stateFlag)
	if err != nil {
		return failure(err)
	}
	found, err := control.Each[control.Console](c.Context(), state, "/console")
	if err != nil {
		return failure(err)
	}
	var links []control.ConsoleLink
	for _, at := range found {
		if at.Said.URL == "" {
			continue
		}
		var link control.ConsoleLink
		if err := at.Client.Ask(c.Context(), http.MethodPost, "/console", control.ConsoleRole{Role: role}, &link); err != nil {
			return failure(err)
		}
		links = append(links, link)
	}
	switch {
	case len(found) == 0:
		return failure(errors.New("console: no server of this user runs here; `belljar serve --console 127.0.0.1:8931` starts one, and --state names its state directory"))
	case len(links) == 0:
		return failure(errors.New("console: no server of this user has a console; start it with --console 127.0.0.1:8931"))
	case asJSON:
		return failure(printJSON(c.OutOrStdout(), links))
	}
	for _, link := range links {
		if _, err := fmt.Fprintln(c.OutOrStdout(), link.URL); err != nil {
			return failure(err)
		}
	}
	return nil
}
