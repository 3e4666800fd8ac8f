package main

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/policies"
)

func stopCommand(u *upstreams) *cobra.Command {
	return &cobra.Command{
		Use: "stop NAME", Short: "end all instances of a server",
		Long: `stop ends all instances of a server with their boxes, and running calls fail. The next list
or call that needs the server starts it again. To keep it off, set "enabled": false in its entry.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			return u.end(c, args[0], "stop", "%s: %s ended.")
		},
	}
}

func logsCommand(u *upstreams) *cobra.Command {
	lines := 50
	c := &cobra.Command{
		Use: "logs NAME", Short: "print what a server has written to standard error",
		Long: `logs prints the last lines that each instance of a server has written to standard error,
also after it has failed. belljar keeps 64 KiB of each instance. Control characters are
made visible, and the values of secrets are masked.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error { return u.logs(c, args[0], lines) },
	}
	c.Flags().IntVar(&lines, "lines", lines, "print at most `N` lines of each instance")
	c.Flags().StringVar(&u.tenant, "tenant", "", "only those of this `tenant`")
	c.Flags().BoolVar(&u.asJSON, "json", false, "print JSON")
	return c
}

// ask requests the state of the upstreams from each running server of belljar. It returns an
// error if none runs.
func (u *upstreams) ask(c *cobra.Command) ([]control.From[[]control.Upstreams], error) {
	state, err := config.KnownState(u.state)
	if err != nil {
		return nil, failure(err)
	}
	found, err := control.Each[[]control.Upstreams](c.Context(), state, "/upstreams")
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: no server of this user runs here; `belljar serve --upstreams FILE` starts one, and --state names its state directory", title(c))
	}
	return found, failure(err)
}

// unknownServer returns the error for a name of a server that is in no file.
func unknownServer(c *cobra.Command, name string) error {
	return failure(fmt.Errorf("%s: no file has a server %q; `belljar upstream list` lists those that exist", title(c), policies.Clip(name, 64)))
}

// having returns the running belljar servers that have an upstream of a name.
func (u *upstreams) having(c *cobra.Command, name string) ([]control.From[[]control.Upstreams], error) {
	found, err := u.ask(c)
	if err != nil {
		return nil, err
	}
	has := func(p control.Upstreams) bool {
		return slices.ContainsFunc(p.All, func(one control.Upstream) bool { return one.Name == name })
	}
	found = slices.DeleteFunc(found, func(at control.From[[]control.Upstreams]) bool { return !slices.ContainsFunc(at.Said, has) })
	if len(found) == 0 {
		return nil, unknownServer(c, name)
	}
	return found, nil
}

// end ends the instances of an upstream; how is "stop" or "restart". said is the format of
// the message, with the upstream's name and a text such as "2 instances are".
func (u *upstreams) end(c *cobra.Command, name, how, said string) error {
	found, err := u.having(c, name)
	if err != nil {
		return err
	}
	instances := 0
	for _, at := range found {
		var done control.Ended
		if err := at.Client.Ask(c.Context(), http.MethodPost, "/upstreams/"+how, control.UpstreamName{Name: name}, &done); err != nil {
			return failure(fmt.Errorf("%s: %w", title(c), err))
		}
		instances += done.Instances
	}
	text := fmt.Sprintf(said, policies.Clip(name, 100), number(instances, "instance is", "instances are"))
	if instances == 0 {
		text = policies.Clip(name, 100) + ": no instance of it ran. It starts when it is needed."
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), text)
	return failure(err)
}

// logs prints what an upstream has written to standard error.
func (u *upstreams) logs(c *cobra.Command, name string, lines int) error {
	if lines < 1 {
		return misused(c, "--lines must be at least 1")
	}
	found, err := u.having(c, name)
	if err != nil {
		return err
	}
	all := []control.UpstreamLog{}
	for _, at := range found {
		var some []control.UpstreamLog
		if err := at.Client.Ask(c.Context(), http.MethodPost, "/upstreams/logs", control.UpstreamLogs{Name: name, Lines: lines}, &some); err != nil {
			return failure(fmt.Errorf("%s: %w", title(c), err))
		}
		all = append(all, some...)
	}
	all = slices.DeleteFunc(all, func(l control.UpstreamLog) bool { return u.tenant != "" && l.Tenant != u.tenant })
	if u.asJSON {
		return printJSON(c.OutOrStdout(), all)
	}
	out := c.OutOrStdout()
	if len(all) == 0 {
		of := ""
		if u.tenant != "" {
			of = " for the tenant " + policies.Clip(u.tenant, 100)
		}
		_, err := fmt.Fprintf(out, "No instance of %s%s runs or has failed.\n", policies.Clip(name, 100), of)
		return failure(err)
	}
	for _, l := range all {
		if len(all) > 1 {
			fmt.Fprintf(out, "tenant %s, %s%s, %s:\n", policies.Clip(l.Tenant, 100), policies.Clip(l.Principal, 100), l.Session, l.State)
		}
		for _, line := range l.Lines {
			fmt.Fprintln(out, tamed(line))
		}
		if len(l.Lines) == 0 {
			fmt.Fprintln(out, "It has written nothing to standard error.")
		}
	}
	return nil
}
