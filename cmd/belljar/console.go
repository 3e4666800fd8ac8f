package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/internal/console"
	"belljar.dev/internal/control"
	"belljar.dev/internal/server"
	"belljar.dev/policies"
)

func consoleCommand() *cobra.Command {
	var state, role string
	var tenants []string
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
  belljar console --tenant acme     the page shows only this tenant
  belljar console token ann         a token for somebody at another machine
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			return printLinks(c, state, control.ConsoleRole{Role: role, Tenants: tenants}, asJSON)
		},
	}
	c.Flags().StringVar(&state, stateName, "", "state `directory` of the servers (default: $XDG_STATE_HOME/belljar)")
	c.Flags().StringVar(&role, "role", console.Operator.String(), "what the page may do: `viewer`, approver or operator")
	c.Flags().StringArrayVar(&tenants, "tenant", nil, "show only what is of this `tenant`; may be repeated")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.AddCommand(consoleTokenCommand())
	return c
}

// consoleFlags adds the flags for the address of a server's console.
func consoleFlags(c *cobra.Command, s *server.Service) {
	c.Flags().StringVar(&s.Console, "console", "", "show people this server in a browser, on this `address`, such as 127.0.0.1:8931; \"belljar console\" prints the link")
	c.Flags().StringVar(&s.ConsoleRemote.URL, "console-url", "", "`URL` of the console as browsers know it, such as https://belljar.example/console/ at a proxy")
	c.Flags().StringVar(&s.ConsoleRemote.Cert, "console-cert", "", "`file` with the certificate of --console in PEM, read again when it changes")
	c.Flags().StringVar(&s.ConsoleRemote.Key, "console-key", "", "`file` with the key of that certificate")
}

func consoleTokenCommand() *cobra.Command {
	role, asJSON := "", false
	c := &cobra.Command{
		Use:   "token NAME",
		Short: "make a token with which a person logs in from another machine",
		Long: `token makes a token for a person and prints it on standard output, once. belljar does not
keep it. The rest goes to standard error: its digest, and the entry for the policy, under
which the person may log in at a console that other machines reach.

  belljar console token ann --role approver >token
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			is, err := console.ParseRole(role)
			switch {
			case err != nil:
				return usage("console token: --role: %w", err)
			case !policies.IsName(args[0]):
				return usage("console token: %q cannot be the name of a person; %s", policies.Clip(args[0], 64), policies.NameShape)
			}
			token := console.NewToken()
			sum := sha256.Sum256([]byte(token))
			made := madeToken{args[0], is.String(), token, hex.EncodeToString(sum[:])}
			if asJSON {
				return failure(printJSON(c.OutOrStdout(), made))
			}
			fmt.Fprintf(c.ErrOrStderr(), "put this digest where only the user of the server can write, such as /etc/belljar/%s.sha256:\n%s\nand this into the policy:\nconsole: {people: {%s: {role: %s, token: \"${file:/etc/belljar/%s.sha256}\"}}}\n", made.Person, made.SHA256, made.Person, made.Role, made.Person)
			_, err = fmt.Fprintln(c.OutOrStdout(), token)
			return failure(err)
		},
	}
	c.Flags().StringVar(&role, "role", console.Viewer.String(), "what the person may do: `viewer`, approver or operator")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// madeToken is a token as JSON.
type madeToken struct {
	Person string `json:"person"`
	Role   string `json:"role"`
	Token  string `json:"token"`
	SHA256 string `json:"sha256"`
}

// printLinks asks each server that has a console for a link.
func printLinks(c *cobra.Command, stateFlag string, want control.ConsoleRole, asJSON bool) error {
	if _, err := console.ParseRole(want.Role); err != nil {
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
		if err := at.Client.Ask(c.Context(), http.MethodPost, "/console", want, &link); err != nil {
			return failure(err)
		}
		if !slices.Equal(link.Tenants, want.Tenants) { // an older server, whose link shows everything
			return failure(fmt.Errorf("console: the server of process %d does not know --tenant; restart it with this version", link.Server))
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
