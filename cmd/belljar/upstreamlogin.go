package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"belljar.dev/internal/server"
	"belljar.dev/policies"
)

// loginCommand returns the command `belljar upstream login`.
func loginCommand(u *upstreams) *cobra.Command {
	s := setup{Config: server.Config{Command: "upstream login"}}
	c := &cobra.Command{
		Use: "login NAME", Short: "log in at a remote server, for a tenant",
		Long: `login finds out where the users of a remote server log in, prints the address, and waits
ten minutes for a person who opens it in a browser on this machine. The tokens are kept
encrypted in the state directory, for this server and tenant alone, and renewed
automatically. All requests go through the door, as the policy says for the server: its
profile must allow the host of the server, and that of the login.
` + exitHelp,
	}
	c.Flags().StringVar(&s.Workspace, "workspace", ".", "`directory` of the place")
	c.Flags().StringVar(&s.Policy, "policy", "", "policy `file` that names the server's file, or says what it may reach")
	c.Flags().StringArrayVar(&s.Upstreams, "upstreams", nil, "`file` with the entry of the server, if the policy names no file")
	s.tenantFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		s.State = u.state
		for i, name := range s.Upstreams {
			var err error
			if s.Upstreams[i], err = filepath.Abs(name); err != nil {
				return err
			}
		}
		srv, err := s.open(c.Context(), c.ErrOrStderr())
		if err != nil {
			return err
		}
		defer srv.Close()
		show := func(url string) {
			fmt.Fprintf(c.OutOrStdout(), "Open this address in a browser on this machine, and log in:\n%s\n", policies.Clip(url, 4096))
		}
		if err := srv.LoginUpstream(c.Context(), args[0], show); err != nil {
			return failure(fmt.Errorf("upstream login: %w", err))
		}
		fmt.Fprintf(c.OutOrStdout(), "Logged in at %s. belljar uses the login when it next starts this server; `belljar upstream restart` does that now.\n", policies.Clip(args[0], 100))
		return nil
	}
	return c
}
