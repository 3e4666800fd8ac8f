package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/policies"
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
from one into the other, in more than 200 ways; it prints how many held in each
category, and what each that got through means. That takes less than a minute.
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
not hold, or something is WRONG; 2 the command line makes no sense.`,
		Args: cobra.NoArgs,
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
			// On standard error, so that what a program reads stays JSON.
			tellHeldBack(c.Context(), c.ErrOrStderr(), set.State, "")
			name, policy, err := config.FindPolicy(set.Policy, workspace)
			here := err
			if err != nil && !c.Flags().Changed("workspace") {
				// The policy may well be for another directory than the one in which
				// somebody looks at it.
				name, policy, err = config.FindPolicy(set.Policy, "")
			}
			if err != nil {
				return failure(err)
			}
			d := examine(workspace, name, policy)
			if here != nil {
				d.Checks = append(d.Checks, sandbox.Check{Name: "policy", OK: true, Degraded: "no server with the workspace " + workspace + " takes it", Detail: config.FirstLine(here)})
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

// diagnosis is what doctor prints. Its JSON is an interface: keys may come,
// none goes or changes its meaning.
type diagnosis struct {
	OK       bool               `json:"ok"`
	Kernel   string             `json:"kernel"`
	Checks   []sandbox.Check    `json:"checks"`
	Policy   string             `json:"policy"`
	Exposure []sandbox.Exposure `json:"exposure"` // none where no box can run
}

func examine(workspace, policyName string, policy *policies.Policy) diagnosis {
	host := sandbox.Examine(workspace)
	d := diagnosis{OK: host.OK(), Kernel: host.Kernel, Checks: host.Checks, Policy: policyName, Exposure: []sandbox.Exposure{}}
	if !d.OK {
		return d
	}
	for _, name := range policy.Profiles() {
		if p, ok := policy.Profile(name); ok {
			d.Exposure = append(d.Exposure, sandbox.Expose(p, host))
		}
	}
	return d
}

// doctor prints what was found and is an error if a box cannot run.
func doctor(out io.Writer, d diagnosis, asJSON bool) error {
	if asJSON {
		if err := printJSON(out, d); err != nil {
			return err
		}
	} else if err := table(out, d); err != nil {
		return failure(fmt.Errorf("print the report: %w", err))
	}
	if !d.OK {
		return failure(errors.New("no box can run on this host: see what is MISSING and how to fix it"))
	}
	return nil
}

// table prints the checks for people, with what to do under each that is not
// met, and then the profiles.
func table(out io.Writer, d diagnosis) error {
	w := newTable(out)
	for _, k := range d.Checks {
		fmt.Fprintf(w, "%s\t%s\t%s\n", k.Word(), k.Name, k.Detail)
		for lost := range strings.SplitSeq(k.Degraded, "; ") {
			if lost != "" {
				fmt.Fprintf(w, "\t\t  so: %s\n", lost)
			}
		}
		if k.Mend != "" && k.Word() != "ok" {
			fmt.Fprintf(w, "\t\t  fix: %s\n", k.Mend)
		}
	}
	if err := w.Flush(); err != nil || !d.OK {
		return err
	}
	fmt.Fprintf(out, "\nBoxes can run on this host.\n\nExposure of the profiles of the policy (%s), 0 least to 100 most:\n", d.Policy)
	w = newTable(out)
	for _, e := range d.Exposure {
		fmt.Fprintf(w, "%3d\t%s\n", e.Score, e.Profile)
		for _, p := range e.Points {
			fmt.Fprintf(w, "\t  %+d\t%s\n", p.Score, p.Fact)
		}
	}
	return w.Flush()
}
