package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"belljar.dev/browser"
	"belljar.dev/internal/control"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

func browserCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "browser",
		Short: "look after the browsers that pages are loaded in",
		Long: `browser says whether this host can load pages in Chromium, and lists the
browsers of your running servers. docs/browser.md says how they are kept.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(browserDoctorCommand(), browserPsCommand(), browserListCommand(), browserWatchCommand(), browserHoldCommand(), browserReleaseCommand())
	return c
}

// browserPolicy is the policy with which doctor tries browsers: in a box without a network.
const browserPolicy = `version: 1
defaults: {decision: allow, profile: doctor}
profiles: {doctor: {browser: degraded}}
`

func browserDoctorCommand() *cobra.Command {
	program, asJSON := "", false
	c := &cobra.Command{
		Use:   "doctor",
		Short: "say whether pages can be loaded in Chromium here",
		Long: `doctor looks for Chromium, starts it in a box, sees whether its own sandbox is
on there, and has it draw a picture. It reaches nothing outside of this host.

With --json it prints an object with "ok" and "checks".

Exit status: 0 pages can be loaded, with Chromium's own sandbox on; 1 they
cannot, or only without it; 2 the command line is not valid.`,
		RunE: func(c *cobra.Command, _ []string) error {
			checks, err := examineBrowser(c.Context(), program)
			if err != nil {
				return failure(err)
			}
			ok := !slices.ContainsFunc(checks, func(k sandbox.Check) bool { return !k.OK })
			if asJSON {
				err = printJSON(c.OutOrStdout(), map[string]any{"ok": ok, "checks": checks})
			} else {
				err = table(c.OutOrStdout(), diagnosis{Checks: checks})
			}
			switch {
			case err != nil || ok:
			case checks[len(checks)-1].OK: // the browser draws
				err = errors.New("pages can be loaded here only without Chromium's own sandbox, and only under a policy with browser: degraded; see above how to fix it")
			default:
				err = errors.New("pages cannot be loaded in a browser on this host; see above how to fix it")
			}
			return failure(err)
		},
	}
	c.Flags().StringVar(&program, "program", "", "`path` of Chromium (default: the one that is found)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON for programs")
	return c
}

func examineBrowser(ctx context.Context, program string) ([]sandbox.Check, error) {
	policy, err := policies.Parse("doctor", []byte(browserPolicy))
	if err != nil {
		return nil, err
	}
	d := policy.Decide(policies.Facts{Tenant: policies.LocalTenant, Tool: "ReadDocs"})
	s, err := sandbox.New(sandbox.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("open the sandbox: %w; `belljar doctor` says what this host lacks and how to fix it", err)
	}
	defer s.Close()
	return browser.Examine(ctx, s, d.Grant, program), nil
}

// browserCheck is the line of `belljar doctor` about Chromium: whether one is installed.
// Whether it works takes a second to find out; `belljar browser doctor` does that.
func browserCheck() sandbox.Check {
	c := sandbox.Check{Name: "Chromium"}
	path, err := browser.Find()
	if err != nil {
		c.Detail, c.Mend = "no Chromium that a box can see", browser.Install
		c.Degraded = "ReadDocs reads pages as the server sends them, without their scripts"
		return c
	}
	c.OK, c.Detail = true, path+"; `belljar browser doctor` tries it"
	return c
}

func browserPsCommand() *cobra.Command {
	state, asJSON := "", false
	c := &cobra.Command{
		Use:   "ps",
		Short: "list the boxes of all Chromes, also those that load pages for ReadDocs",
		Long: `ps lists the Chromes of the servers that run as you: the server's process, the
box's id, what it is for (an agent, or the pages of ReadDocs), whose it is, the
profile by which its egress is decided, and its memory. totals.browsers bounds those
of agents alone, which ` + "`belljar browser list`" + ` shows with their state.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			boxes, _, err := findBoxes(c.Context(), state)
			if err != nil {
				return failure(err)
			}
			list := []control.Box{}
			for _, b := range boxes {
				if b.Browser {
					list = append(list, b)
				}
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), list)
			}
			agents, err := findBrowsers(c.Context(), state, func(control.Browser) bool { return true })
			if err != nil {
				return err
			}
			t := newTable(c.OutOrStdout())
			fmt.Fprintln(t, "SERVER\tBOX\tFOR\tTENANT\tPROFILE\tMEMORY")
			for _, b := range list {
				use := "pages"
				if slices.ContainsFunc(agents, func(w watched) bool { return w.Server == b.Server && control.ShortBox(w.ID) == b.ID }) {
					use = "agent"
				}
				fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%d MiB\n", b.Server, b.ID, use, b.Tenant, b.Profile, b.Memory>>20)
			}
			return failure(t.Flush())
		},
	}
	c.Flags().StringVar(&state, "state", "", "state `directory` of the server (default: $XDG_STATE_HOME/belljar)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
