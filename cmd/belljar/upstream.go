package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/control"
	"belljar.dev/policies"
)

// upstreams are the flags of the upstream commands.
type upstreams struct {
	state, tenant  string
	asJSON, tokens bool
}

func upstreamCommand() *cobra.Command {
	var u upstreams
	c := &cobra.Command{
		Use:   "upstream",
		Short: "add and list other people's MCP servers, and decide which of them are trusted",
		Long: `upstream shows the MCP servers of other people whose tools your running servers offer,
and their definitions that wait for a person: what a server runs and lists is compared
with what was trusted before, and a difference is held.

  belljar upstream import claude-desktop
  belljar upstream list
  belljar upstream pins diff files     what waits, old beside new
  belljar upstream approve files       trust it
  belljar upstream test .mcp.json      what a file would start
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&u.state, stateName, "", "state `directory` of the servers (default: $XDG_STATE_HOME/belljar)")
	list := &cobra.Command{
		Use: "list", Short: "list the servers with their states, pins and files",
		Long: `list prints each server, or each of its instances: its state, how many of its tools are
listed, how many of its definitions are held (HELD), the mode of its pins,
whether no box can write its file (TRUSTED), and the file and line of its entry. Below
are the faults of the files. With --tokens it says how large the list of tools is.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return u.list(c) },
	}
	list.Flags().BoolVar(&u.tokens, "tokens", false, "measure the list of tools")
	status := &cobra.Command{
		Use: "status [NAME]", Short: "show the state of servers, and why one is not ready",
		Long: `status prints the state of each server, with the reason and the last lines that it
wrote to standard error. The exit status is 1 if one of them is neither ready nor off.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error { return u.status(c, args) },
	}
	for _, one := range []*cobra.Command{list, status} {
		one.Flags().StringVar(&u.tenant, "tenant", "", "only those of this `tenant`")
		one.Flags().BoolVar(&u.asJSON, "json", false, "print JSON")
	}
	restart := &cobra.Command{
		Use: "restart NAME", Short: "end all instances of a server, and start them again",
		RunE: func(c *cobra.Command, args []string) error {
			return u.end(c, args[0], "restart", "%s: %s ended, and started anew.")
		},
	}
	test := &cobra.Command{
		Use: "test FILE", Short: "say what a file would start, and start nothing",
		Long: `test reads a file of servers as any client has it, as if it were the operator's, and
prints what each entry would run, without a policy: the program that fetches the
server, the program that is the server, and to what the entry refers. The exit status
is 1 if the file or an entry has an error; a warning prevents nothing.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error { return testUpstreams(c.OutOrStdout(), args[0]) },
	}
	c.AddCommand(addCommand(), importCommand(&u), trustCommand(&u))
	c.AddCommand(list, status, logsCommand(&u), restart, stopCommand(&u), loginCommand(&u), pinsCommand(&u), decideCommand(&u, true), decideCommand(&u, false), test)
	return c
}

// places returns the places of all servers, with the upstreams that the flags and the name
// choose. An empty name chooses all upstreams.
func (u *upstreams) places(c *cobra.Command, name string) ([]control.Upstreams, error) {
	found, err := u.ask(c)
	if err != nil {
		return nil, err
	}
	all := flat(found)
	for i := range all {
		all[i].All = slices.DeleteFunc(all[i].All, func(one control.Upstream) bool {
			return u.tenant != "" && one.Tenant != "" && one.Tenant != u.tenant || name != "" && one.Name != name
		})
	}
	return all, nil
}

func (u *upstreams) list(c *cobra.Command) error {
	all, err := u.places(c, "")
	if err != nil {
		return err
	}
	if u.asJSON {
		return printJSON(c.OutOrStdout(), all)
	}
	for i, at := range all {
		if len(all) > 1 {
			if i > 0 {
				fmt.Fprintln(c.OutOrStdout())
			}
			fmt.Fprintf(c.OutOrStdout(), "%s of server %d\n", policies.Clip(at.Place, 200), at.Server)
		}
		if err := u.printPlace(c.OutOrStdout(), at); err != nil {
			return failure(err)
		}
	}
	return nil
}

// printPlace prints the upstreams of one place.
func (u *upstreams) printPlace(out io.Writer, at control.Upstreams) error {
	if len(at.All) == 0 {
		fmt.Fprintln(out, "No file has an entry of a server; `belljar serve --upstreams FILE` reads one.")
	} else {
		w := newTable(out)
		sizes := ""
		if u.tokens {
			sizes = "BYTES\t"
		}
		fmt.Fprintln(w, "NAME\tSTATE\tTENANT\tTOOLS\t"+sizes+"HELD\tPINS\tTRUSTED\tENTRY")
		for _, one := range at.All {
			if u.tokens {
				sizes = fmt.Sprintf("%d\t", one.Bytes)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s%d\t%s\t%s\t%s\n", policies.Clip(one.Name, 100), one.State, policies.Clip(cmp.Or(one.Tenant, "-"), 100),
				one.Tools, sizes, one.Held, cmp.Or(one.Pin, "-"), yesNo(one.Trusted), entryOf(one))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if at.More > 0 {
		fmt.Fprintf(out, "%d more are not shown.\n", at.More)
	}
	for _, fault := range at.Faults {
		fmt.Fprintln(out, policies.Clip(fault, 1000))
	}
	if u.tokens {
		printSize(out, at)
	}
	return nil
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// entryOf returns where the entry of a server is, and which entries it replaces.
func entryOf(u control.Upstream) string {
	if u.File == "" {
		return "-"
	}
	text := fmt.Sprintf("%s:%d", u.File, u.Line)
	if len(u.Hides) > 0 {
		text += ", in place of " + strings.Join(u.Hides, ", ")
	}
	return policies.Clip(text, 500)
}

// Every conversation pays for the list of tools, and models choose worse from a long list.
// A list that is longer than muchTools or muchBytes gets a warning.
const (
	muchTools     = 128
	muchBytes     = 64 << 10
	bytesPerToken = 4 // approximate number of bytes in a token, for definitions in English
)

// printSize prints how large the list of tools is that the clients of each tenant get.
func printSize(out io.Writer, at control.Upstreams) {
	sums := make(map[string]control.Listing)
	counted := make(map[[2]string]bool)
	var names []string
	for _, one := range at.All {
		// all instances of a server offer the same tools
		if of := [2]string{one.Tenant, one.Name}; one.Tenant != "" && !counted[of] {
			counted[of] = true
			sum, known := sums[one.Tenant]
			if !known {
				names, sum = append(names, one.Tenant), at.Own
			}
			sum.Tools += one.Tools
			sum.Bytes += one.Bytes
			sums[one.Tenant] = sum
		}
	}
	if len(names) == 0 {
		names, sums[""] = []string{""}, at.Own
	}
	slices.Sort(names)
	for _, name := range names {
		sum, whose := sums[name], ""
		if name != "" {
			whose = " of tenant " + policies.Clip(name, 100)
		}
		fmt.Fprintf(out, "The list%s has %s with %d bytes, about %d tokens; belljar's own are %d with %d bytes.\n",
			whose, numbered(uint64(sum.Tools), "tool"), sum.Bytes, sum.Bytes/bytesPerToken, at.Own.Tools, at.Own.Bytes)
		if sum.Tools > muchTools || sum.Bytes > muchBytes {
			fmt.Fprintf(out, "warning: that is more than %d tools or %d KiB, which every conversation pays for; tools: {allow: [...]} of a server in the policy keeps it short\n", muchTools, muchBytes>>10)
		}
	}
}

func (u *upstreams) status(c *cobra.Command, args []string) error {
	name := nameOf(args)
	places, err := u.places(c, name)
	if err != nil {
		return err
	}
	var bad []string
	all := []control.Upstream{}
	for _, at := range places {
		for _, one := range at.All {
			all = append(all, one)
			if shown := policies.Clip(one.Name, 100); one.State != "ready" && one.State != "off" && !slices.Contains(bad, shown) {
				bad = append(bad, shown)
			}
		}
	}
	if name != "" && len(all) == 0 {
		return unknownServer(c, name)
	}
	if u.asJSON {
		err = printJSON(c.OutOrStdout(), all)
	} else {
		for _, one := range all {
			printUpstream(c.OutOrStdout(), one)
		}
	}
	if err == nil && len(bad) > 0 {
		err = failure(fmt.Errorf("upstream status: not ready: %s", strings.Join(bad, ", ")))
	}
	return err
}

// printUpstream prints the state of one instance of a server.
func printUpstream(out io.Writer, u control.Upstream) {
	fmt.Fprintf(out, "%s: %s", policies.Clip(u.Name, 100), u.State)
	if !u.Since.IsZero() {
		fmt.Fprintf(out, " for %s", policies.Spoken(time.Since(u.Since)))
	}
	for _, of := range [][2]string{{"tenant", u.Tenant}, {"principal", u.Principal}, {"session", u.Session}} {
		if of[1] != "" {
			fmt.Fprintf(out, ", %s %s", of[0], policies.Clip(of[1], 100))
		}
	}
	fmt.Fprintln(out)
	fmt.Fprintf(out, "  entry:  %s\n", entryOf(u))
	if u.Reason != "" {
		fmt.Fprintf(out, "  why:    %s\n", policies.Clip(u.Reason, 1000))
	}
	if u.Step != "" {
		fmt.Fprintf(out, "  step:   %s\n", policies.Clip(u.Step, 100))
	}
	if u.Attempt > 0 {
		fmt.Fprintf(out, "  starts: %d in ten minutes", u.Attempt)
		if left := time.Until(u.Until); left > 0 {
			fmt.Fprintf(out, ", the next one in %s", policies.Spoken(left))
		}
		fmt.Fprintln(out)
	}
	if u.Held > 0 {
		fmt.Fprintf(out, "  held:   %s\n", numbered(uint64(u.Held), "definition"))
	}
	if len(u.Stderr) > 0 {
		fmt.Fprintln(out, "  stderr:")
	}
	for _, line := range u.Stderr {
		fmt.Fprintf(out, "    %s\n", policies.Clip(line, 500))
	}
}
