package main

import (
	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/sandbox"
)

func doctorCommand() *cobra.Command {
	var set setup
	var asJSON bool
	var probe probing
	var web webDoctoring
	c := &cobra.Command{
		Use:   "doctor",
		Short: "say what this host offers to a sandbox",
		Long: `doctor tries what boxes need from this host. It prints what the host has, what is
degraded because something is missing, and the one command that fixes it. Under that it rates
each profile of the policy: 0 says that a box can reach nothing of this host,
100 that the box is a formality. docs/hosts.md says what adds to it.

With --json it prints an object with "ok", "kernel", "checks", "policy" and
"exposure".

With --probe it opens boxes for two tenants and tries to get out of them, and
from one into the other, in more than 200 ways; it prints how many of them failed in
each category, and what each one that succeeded means. That takes less than a minute.
Without --workspace it works in a directory made for it. With --json it prints
an object with "ok", "policy", "profile", "workspace", "held", "of",
"categories" and "findings".

With --http URL it looks at a server instead, from outside and through whatever
proxy stands before it, as strangers and clients do: TLS, Host and Origin, the
login, both eras of the protocol, bodies, streams. It says what is WRONG and how
to fix it. Without --token-file it looks as a stranger only. It takes about 20
seconds. With --json it prints an object with "ok" and "checks".

Exit status: 0 boxes can run here, with --probe all probes held, and with --http
nothing is WRONG; 1 no box can run here, the policy cannot be read, a probe did
not hold, or something is WRONG; 2 the command line is not valid.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if !probe.on && c.Flags().Changed("profile") {
				return usage("doctor rates all profiles; --profile goes with --probe")
			}
			if err := withHTTP(c); err != nil {
				return err
			}
			switch {
			case probe.on && web.URL != "":
				return usage("--probe looks at this host, and --http at a server: choose one")
			case web.URL != "":
				return web.run(c, asJSON)
			case probe.on:
				return probe.run(c, &set, asJSON)
			}
			workspace, err := config.FindWorkspace(set.Workspace)
			if err != nil {
				return failure(err)
			}
			// This goes to standard error, so that standard output stays JSON for programs.
			tellHeldBack(c.Context(), c.ErrOrStderr(), set.State, "")
			name, policy, err := config.FindPolicy(set.Policy, workspace)
			here := err
			if err != nil && !c.Flags().Changed("workspace") {
				// The policy may be for another directory than the one in which the person
				// runs doctor.
				name, policy, err = config.FindPolicy(set.Policy, "")
			}
			if err != nil {
				return failure(err)
			}
			d := examine(workspace, name, policy)
			if here != nil {
				d.Checks = append(d.Checks, sandbox.Check{Name: "policy", OK: true, Degraded: "no server with the workspace " + workspace + " accepts it", Detail: config.FirstLine(here)})
			}
			d.Checks = append(d.Checks, auditCheck(c.Context(), policy, set.State), browserCheck())
			return doctor(c.OutOrStdout(), d, asJSON)
		},
	}
	set.flags(c)
	probe.flags(c)
	web.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON for programs")
	return c
}
