package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/policies"
)

// approving is the flags that the approve commands share.
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
		Long: `approve shows the calls about which the policy wants a person asked, and takes
the answers. The first answer holds, on whatever way it comes; no answer in time
is a no. It asks the servers of this user that run, and they answer nobody else.

  belljar approve list
  belljar approve show ap-7q2x
  belljar approve yes ap-7q2x                for the call that asked
  belljar approve yes ap-7q2x --for session  for those that look the same, too
  belljar approve no ap-7q2x --note 'not before the release'
` + exitHelp,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&a.state, "state", "", "state `directory` of the servers (default: $XDG_STATE_HOME/belljar)")
	list := &cobra.Command{Use: "list", Short: "list what waits, and what was said yes to", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return a.list(c) }}
	list.Flags().BoolVar(&a.all, "all", false, "those that are over as well, of the last days")
	list.Flags().BoolVar(&a.asJSON, "json", false, "print JSON")
	show := &cobra.Command{Use: "show ID", Short: "show a call that waits, part by part", Args: exactly(1, "the ID of an approval; belljar approve list prints them"), RunE: func(c *cobra.Command, args []string) error { return a.show(c, args[0]) }}
	show.Flags().BoolVar(&a.asJSON, "json", false, "print JSON")
	yes := &cobra.Command{Use: "yes ID", Short: "let a call run", Args: show.Args, RunE: func(c *cobra.Command, args []string) error { return a.answer(c, args[0], true) }}
	yes.Flags().StringVar(&a.scope, "for", "once", "`scope` of the yes: once, session, or a time such as 2h")
	no := &cobra.Command{Use: "no ID", Short: "refuse a call", Args: show.Args, RunE: func(c *cobra.Command, args []string) error { return a.answer(c, args[0], false) }}
	for _, one := range []*cobra.Command{yes, no} {
		one.Flags().StringVar(&a.note, "note", "", "further `text` for the agent")
	}
	revoke := &cobra.Command{Use: "revoke ID", Short: "take a yes back", Args: show.Args, RunE: func(c *cobra.Command, args []string) error { return a.revoke(c, args[0]) }}
	watch := &cobra.Command{Use: "watch", Short: "show questions as they come; on a terminal, answer them", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return a.watch(c) }}
	c.AddCommand(list, show, yes, no, revoke, watch)
	return c
}

// desks are the servers that can be asked, each with the approvals that it sees.
type desks []control.From[control.Approvals]

// open asks all servers.
func (a *approving) open(ctx context.Context, all bool) (desks, error) {
	return askServers[control.Approvals](ctx, "approve", a.state, "/approvals", all)
}

// of returns the server to ask about an approval: the one whose call it is for.
func (d desks) of(id string) (*control.Client, error) {
	for _, at := range d {
		for _, one := range at.Said.All {
			if one.ID != id {
				continue
			}
			for _, other := range d {
				if other.Said.Place == one.Place || slices.Contains(other.Said.Places, one.Place) {
					return other.Client, nil
				}
			}
			return at.Client, nil
		}
	}
	return nil, failure(fmt.Errorf("approve: approval %q does not exist; `belljar approve list --all` lists those that do", policies.Clip(id, 64)))
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

// get is an approval and the server to ask about it.
func (a *approving) get(ctx context.Context, id string) (one approval.Approval, at *control.Client, err error) {
	found, err := a.open(ctx, true)
	if err != nil {
		return one, nil, err
	}
	if at, err = found.of(id); err != nil {
		return one, nil, err
	}
	return one, at, failure(at.Ask(ctx, http.MethodGet, "/approvals/"+id, nil, &one))
}

// printApproval shows a question with all that a person needs for the answer.
func printApproval(out io.Writer, a approval.Approval) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s of tenant %s, session %s\n", a.ID, a.State, a.Tool, approval.Plain(a.Tenant, 64), a.Session)
	for _, line := range a.Shown.Lines() {
		b.WriteString("  " + line + "\n")
	}
	fmt.Fprintf(&b, "workspace: %s\n", approval.Plain(a.Place, 200))
	if a.Profile != "" { // the end of plan mode has none
		fmt.Fprintf(&b, "profile:   %s\n", a.Profile)
	}
	fmt.Fprintf(&b, "rule:      %s\nreason:    %s\n", a.Rule, a.Reason)
	switch a.State {
	case approval.Pending:
		fmt.Fprintf(&b, "waits for %s more; a yes can be for: %s\n", policies.Spoken(time.Until(a.Expires)), a.Offers())
	case approval.Approved:
		fmt.Fprintf(&b, "%s said yes by %s, for %s; it is good for %s more\n", a.By, a.Via, a.Scope, policies.Spoken(time.Until(a.Until)))
	case approval.Declined, approval.Used, approval.Revoked:
		fmt.Fprintf(&b, "%s answered by %s, %s after it was asked\n", a.By, a.Via, policies.Spoken(a.Waited(time.Now())))
	case approval.Expired:
	}
	if a.Note != "" {
		fmt.Fprintf(&b, "note:      %s\n", a.Note)
	}
	_, err := io.WriteString(out, b.String())
	return err
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

// say sends an answer.
func say(ctx context.Context, at *control.Client, id string, said control.Answer) (one approval.Approval, err error) {
	return one, at.Ask(ctx, http.MethodPost, "/approvals/"+id+"/answer", said, &one)
}

// outcomeLine says what an answer has done, for the person.
func outcomeLine(a approval.Approval) string {
	switch a.State {
	case approval.Approved:
		if a.Scope == approval.Hours {
			return fmt.Sprintf("%s: yes, for %s. The call runs, if it still waits, and calls like it run until then.", a.ID, policies.Spoken(time.Until(a.Until)))
		}
		return fmt.Sprintf("%s: yes, for %s. The call runs, if it still waits, or when the agent repeats it within %s.", a.ID, a.Scope, policies.Spoken(time.Until(a.Until)))
	case approval.Used:
		return a.ID + ": yes. The call runs."
	case approval.Declined:
		return a.ID + ": no. The agent is notified."
	case approval.Revoked:
		return a.ID + ": the yes is taken back. What it let run goes on."
	case approval.Pending, approval.Expired:
	}
	return fmt.Sprintf("%s: %s", a.ID, a.State)
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
