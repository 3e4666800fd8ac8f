package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"belljar.dev/internal/control"
	"belljar.dev/policies"
)

// tenancy is the flags that the tenant commands share.
type tenancy struct {
	state  string
	asJSON bool
}

func tenantCommand() *cobra.Command {
	var a tenancy
	c := &cobra.Command{
		Use:   "tenant",
		Short: "show what tenants use of their quotas",
		Long: `tenant shows the tenants that the policies of your running servers name: where each
works, and what it uses of its quotas. docs/tenants.md says what the quotas are, and
what happens when one is full.

  belljar tenant list
  belljar tenant show acme
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&a.state, stateName, "", "state `directory` of the servers (default: $XDG_STATE_HOME/belljar)")
	list := &cobra.Command{Use: "list", Short: "list the tenants, with what they use", RunE: func(c *cobra.Command, _ []string) error { return a.list(c) }}
	show := &cobra.Command{Use: "show NAME", Short: "show the places of a tenant, and all its quotas", RunE: func(c *cobra.Command, args []string) error { return a.show(c, args[0]) }}
	for _, one := range []*cobra.Command{list, show} {
		one.Flags().BoolVar(&a.asJSON, "json", false, "print JSON")
	}
	c.AddCommand(list, show)
	return c
}

// tenants returns the tenants of all servers of a state directory that want accepts.
func (a *tenancy) tenants(ctx context.Context, want func(control.Tenant) bool) ([]control.Tenant, error) {
	found, err := lists(ctx, a.state, "/tenants", want)
	return flat(found), err
}

func (a *tenancy) list(c *cobra.Command) error {
	all, err := a.tenants(c.Context(), func(control.Tenant) bool { return true })
	if err != nil {
		return err
	}
	if a.asJSON {
		return printJSON(c.OutOrStdout(), all)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(c.OutOrStdout(), "No server of yours runs with a policy that names tenants.")
		return failure(err)
	}
	w := newTable(c.OutOrStdout())
	shown := []string{"sessions", "streams", "in_flight", "boxes", "memory", "disk", "egress"}
	fmt.Fprintln(w, "SERVER\tTENANT\t"+strings.ToUpper(strings.ReplaceAll(strings.Join(shown, "\t"), "_", " ")))
	for _, t := range all {
		fmt.Fprintf(w, "%d\t%s", t.Server, t.Name)
		for _, name := range shown {
			fmt.Fprint(w, "\t"+usedOf(t, name))
		}
		fmt.Fprintln(w)
	}
	return failure(w.Flush())
}

// usedOf returns how much a tenant uses of a quota and the limit of that quota, for example
// "1 of 4".
func usedOf(t control.Tenant, name string) string {
	for _, q := range t.Quotas {
		if q.Name == name && q.Used != nil {
			return amount(q, *q.Used) + " of " + amount(q, q.Most)
		}
	}
	return "-"
}

// amount writes n in the unit of a quota.
func amount(q control.Quota, n float64) string {
	switch q.Unit {
	case control.UnitBytes, control.UnitBytesAnHour:
		return size(int64(n))
	case control.UnitASecond:
		return strconv.FormatFloat(n, 'g', -1, 64) + "/s"
	}
	return strconv.FormatFloat(n, 'g', -1, 64)
}

func (a *tenancy) show(c *cobra.Command, name string) error {
	all, err := a.tenants(c.Context(), func(t control.Tenant) bool { return t.Name == name })
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return failure(fmt.Errorf("tenant: no server of yours has a tenant %q; `belljar tenant list` lists those that exist", policies.Clip(name, 64)))
	}
	if a.asJSON {
		return printJSON(c.OutOrStdout(), all)
	}
	for _, t := range all {
		if err := printTenant(c.OutOrStdout(), t); err != nil {
			return failure(err)
		}
	}
	return nil
}

func printTenant(out io.Writer, t control.Tenant) error {
	w := newTable(out)
	fmt.Fprintf(w, "tenant %s of server %d\n", t.Name, t.Server)
	for _, p := range t.Places {
		fmt.Fprintf(w, "  %s\t%s\n", p.Path, p.Workspace)
	}
	fmt.Fprintln(w, "QUOTA\tUSED\tLIMIT")
	for _, q := range t.Quotas {
		used := "-"
		if q.Used != nil {
			used = amount(q, *q.Used)
		}
		most := amount(q, q.Most)
		if q.Unit == control.UnitBytesAnHour {
			most += " an hour"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", q.Name, used, most)
	}
	return w.Flush()
}
