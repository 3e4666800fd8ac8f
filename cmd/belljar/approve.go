package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/policies"
)

// approving contains the flags that the approve commands share.
type approving struct {
	state  string
	asJSON bool
	all    bool
	scope  string
	note   string
}

func approveCommand() *cobra.Command {
	var a approving
	c := &cobra.Command{
		Use:   "approve",
		Short: "answer what agents' calls wait for",
		Long: `approve shows the calls that the policy lets run only with a person's yes, and
takes the answers. The first answer counts, whichever way it comes; no answer in
time is a no. It asks the running servers of this user; they answer no other user.

  belljar approve list
  belljar approve show ap-7q2x
  belljar approve yes ap-7q2x                for the call that asked
  belljar approve yes ap-7q2x --for session  for those that look the same, too
  belljar approve no ap-7q2x --note 'not before the release'
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&a.state, "state", "", "state `directory` of the servers (default: $XDG_STATE_HOME/belljar)")
	list := &cobra.Command{Use: "list", Short: "list the calls that wait, and the approvals that are still valid", RunE: func(c *cobra.Command, _ []string) error { return a.list(c) }}
	list.Flags().BoolVar(&a.all, "all", false, "also list the questions of the last days that no longer wait")
	list.Flags().BoolVar(&a.asJSON, "json", false, "print JSON")
	show := &cobra.Command{Use: "show ID", Short: "show a call that waits, part by part", Args: exactly(1, "the ID of an approval; belljar approve list prints them"), RunE: func(c *cobra.Command, args []string) error { return a.show(c, args[0]) }}
	show.Flags().BoolVar(&a.asJSON, "json", false, "print JSON")
	yes := &cobra.Command{Use: "yes ID", Short: "let a call run", Args: show.Args, RunE: func(c *cobra.Command, args []string) error { return a.answer(c, args[0], true) }}
	yes.Flags().StringVar(&a.scope, "for", "once", "`scope` of the yes: once, session, or a time such as 2h")
	no := &cobra.Command{Use: "no ID", Short: "refuse a call", Args: show.Args, RunE: func(c *cobra.Command, args []string) error { return a.answer(c, args[0], false) }}
	for _, one := range []*cobra.Command{yes, no} {
		one.Flags().StringVar(&a.note, "note", "", "further `text` for the agent")
	}
	revoke := &cobra.Command{Use: "revoke ID", Short: "revoke a yes", Args: show.Args, RunE: func(c *cobra.Command, args []string) error { return a.revoke(c, args[0]) }}
	watch := &cobra.Command{Use: "watch", Short: "show questions as they come; on a terminal, answer them", RunE: func(c *cobra.Command, _ []string) error { return a.watch(c) }}
	c.AddCommand(list, show, yes, no, revoke, watch)
	return c
}

func (a *approving) list(c *cobra.Command) error {
	found, err := a.open(c.Context(), a.all)
	if err != nil {
		return err
	}
	all := found[0].Said.All
	if a.asJSON {
		return failure(printJSON(c.OutOrStdout(), append([]approval.Approval{}, all...)))
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(c.OutOrStdout(), "Nothing waits for an answer.")
		return failure(err)
	}
	w := newTable(c.OutOrStdout())
	fmt.Fprintln(w, "ID\tSTATE\tTENANT\tRULE\tTIME LEFT\tWHAT")
	for _, one := range all {
		left := "-"
		switch one.State {
		case approval.Pending:
			left = policies.Spoken(time.Until(one.Expires))
		case approval.Approved:
			left = policies.Spoken(time.Until(one.Until))
		case approval.Declined, approval.Expired, approval.Used, approval.Revoked:
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", one.ID, one.State, one.Tenant, one.Rule, left, gist(one))
	}
	return failure(w.Flush())
}

func (a *approving) show(c *cobra.Command, id string) error {
	one, _, err := a.get(c.Context(), id)
	if err != nil {
		return err
	}
	if a.asJSON {
		return failure(printJSON(c.OutOrStdout(), one))
	}
	return failure(printApproval(c.OutOrStdout(), one))
}

// get returns an approval, and the server that must be asked about it. It looks among the
// live approvals first: in the list of all, newer ones that have ended could leave no room
// for one that waits.
func (a *approving) get(ctx context.Context, id string) (one approval.Approval, at *control.Client, err error) {
	for _, all := range []bool{false, true} {
		found, err := a.open(ctx, all)
		if err != nil {
			return one, nil, err
		}
		if at, err = found.of(id); err == nil {
			err = at.Ask(ctx, http.MethodGet, "/approvals/"+id, nil, &one)
			return one, at, failure(err)
		}
	}
	return one, nil, unknownApproval(id)
}

func (a *approving) answer(c *cobra.Command, id string, yes bool) error {
	if _, _, err := control.ParseScope(a.scope); err != nil {
		return usage("approve yes: --for: %w", err)
	}
	_, at, err := a.get(c.Context(), id)
	if err != nil {
		return err
	}
	one, err := say(c.Context(), at, id, control.Answer{Yes: yes, Scope: a.scope, Note: a.note})
	if err != nil {
		return failure(err)
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), outcomeLine(one))
	return failure(err)
}

func (a *approving) revoke(c *cobra.Command, id string) error {
	_, at, err := a.get(c.Context(), id)
	if err != nil {
		return err
	}
	var one approval.Approval
	if err := at.Ask(c.Context(), http.MethodPost, "/approvals/"+id+"/revoke", struct{}{}, &one); err != nil {
		return failure(err)
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), outcomeLine(one))
	return failure(err)
}
