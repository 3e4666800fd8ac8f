package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/policies"
)

// operating contains the flags that the session and job commands share.
type operating struct {
	state, tenant, session string
	asJSON, all            bool
	note                   string
}

func (o *operating) list(c *cobra.Command) {
	c.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
}

func sessionCommand() *cobra.Command {
	var o operating
	c := &cobra.Command{
		Use:   "session",
		Short: "list and end the sessions of your running servers",
		Long: `session shows the conversations that agents' clients have with the servers that
run as you, and ends them. The end of a session cancels its calls, kills its box with
all that runs in it, and tells the agent who ended it. A client over stdio ends with
its session; one over HTTP can begin another one, unless its tenant was taken out of
the policy.

  belljar session list
  belljar session end s-7Q2XAB3LMN --note 'the disk is needed'
  belljar session end --tenant alice
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	o.flags(c)
	list := &cobra.Command{Use: "list", Short: "list the sessions that are open", RunE: func(c *cobra.Command, _ []string) error { return o.listSessions(c) }}
	end := &cobra.Command{Use: "end [ID...]", Short: "end sessions", RunE: func(c *cobra.Command, args []string) error { return o.endSessions(c, args) }}
	o.list(list)
	o.list(end)
	end.Flags().BoolVar(&o.all, "all", false, "all sessions of all your servers")
	end.Flags().StringVar(&o.note, "note", "", "`text` for the agent")
	c.AddCommand(list, end)
	return c
}

func jobCommand() *cobra.Command {
	var o operating
	c := &cobra.Command{
		Use:   "job",
		Short: "list and end background tasks of your running servers",
		Long: `job shows the commands that agents have running in the background, and ends them
with all they have started: SIGTERM first, and two seconds later the kill of the
task's cgroup. The agent is notified who ended the task. A task is known by its number,
and by its session if two have the same number.

  belljar job list
  belljar job end 3
  belljar job end 3 --session s-7Q2XAB3LMN
  belljar job end --tenant alice
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	o.flags(c)
	c.PersistentFlags().StringVar(&o.session, "session", "", "only tasks of this session, by its `id`")
	list := &cobra.Command{Use: "list", Short: "list the background tasks that run", RunE: func(c *cobra.Command, _ []string) error { return o.listJobs(c) }}
	end := &cobra.Command{Use: "end [TASK...]", Short: "end background tasks", RunE: func(c *cobra.Command, args []string) error { return o.endJobs(c, args) }}
	o.list(list)
	o.list(end)
	end.Flags().BoolVar(&o.all, "all", false, "all tasks of all your servers")
	c.AddCommand(list, end)
	return c
}

func (o *operating) flags(c *cobra.Command) {
	c.PersistentFlags().StringVar(&o.state, stateName, "", "state `directory` of the servers (default: $XDG_STATE_HOME/belljar)")
	c.PersistentFlags().StringVar(&o.tenant, "tenant", "", "only those of this `tenant`")
}

// lists asks each server of a state directory for a list, and keeps the entries for which
// want returns true.
func lists[T any](ctx context.Context, state, path string, want func(T) bool) ([]control.From[[]T], error) {
	dir, err := config.KnownState(state)
	if err != nil {
		return nil, failure(err)
	}
	found, err := control.Each[[]T](ctx, dir, path)
	for i := range found {
		found[i].Said = slices.DeleteFunc(found[i].Said, func(t T) bool { return !want(t) })
	}
	return found, failure(err)
}

// flat joins the lists of all servers.
func flat[T any](found []control.From[[]T]) []T {
	all := []T{}
	for _, at := range found {
		all = append(all, at.Said...)
	}
	return all
}

func (o *operating) sessions(ctx context.Context) ([]control.From[[]control.Session], error) {
	return lists(ctx, o.state, "/sessions", func(s control.Session) bool { return o.tenant == "" || s.Tenant == o.tenant })
}

func (o *operating) jobs(ctx context.Context) ([]control.From[[]control.Job], error) {
	return lists(ctx, o.state, "/jobs", func(j control.Job) bool {
		return (o.tenant == "" || j.Tenant == o.tenant) && (o.session == "" || j.Session == control.ShortID(o.session))
	})
}

func (o *operating) listSessions(c *cobra.Command) error {
	found, err := o.sessions(c.Context())
	if err != nil {
		return err
	}
	all := flat(found)
	if o.asJSON {
		return printJSON(c.OutOrStdout(), all)
	}
	return printSessions(c.OutOrStdout(), all)
}

func printSessions(out io.Writer, all []control.Session) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "No session is open.")
		return failure(err)
	}
	w := newTable(out)
	fmt.Fprintln(w, "SERVER\tSESSION\tTENANT\tTRANSPORT\tCLIENT\tOPEN FOR\tLAST CALL\tCALLS\tJOBS")
	for _, s := range all {
		client := cmp.Or(strings.TrimSpace(policies.Clip(s.Client, 40)+" "+policies.Clip(s.Version, 20)), "-")
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s ago\t%d\t%d\n", s.Server, s.ID, s.Tenant, s.Transport, client,
			policies.Spoken(time.Since(s.Began)), policies.Spoken(time.Since(s.Used)), s.Calls, s.Jobs)
	}
	return failure(w.Flush())
}

func (o *operating) listJobs(c *cobra.Command) error {
	found, err := o.jobs(c.Context())
	if err != nil {
		return err
	}
	all := flat(found)
	if o.asJSON {
		return printJSON(c.OutOrStdout(), all)
	}
	return printJobs(c.OutOrStdout(), all)
}

func printJobs(out io.Writer, all []control.Job) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "No background task runs.")
		return failure(err)
	}
	w := newTable(out)
	fmt.Fprintln(w, "SERVER\tTASK\tTENANT\tSESSION\tRUNS FOR\tCOMMAND")
	for _, j := range all {
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%s\n", j.Server, j.ID, j.Tenant, j.Session, policies.Spoken(time.Since(j.Started)),
			policies.Clip(strings.Join(strings.Fields(j.Command), " "), 80))
	}
	return failure(w.Flush())
}

// chosen checks that a command that ends sessions or tasks names them, and in only one way.
func (o *operating) chosen(what string, args []string) error {
	switch filtered := o.tenant != "" || o.session != ""; {
	case len(args) == 0 && !o.all && !filtered:
		return usage("%s end: name what is to end, or give --tenant or --all", what)
	case o.all && (len(args) > 0 || filtered):
		return usage("%s end: --all allows no name and no --tenant or --session", what)
	}
	return nil
}

func (o *operating) endSessions(c *cobra.Command, args []string) error {
	if err := o.chosen("session", args); err != nil {
		return err
	}
	found, err := o.sessions(c.Context())
	if err != nil {
		return err
	}
	known := flat(found)
	for _, id := range args {
		n := 0
		for _, s := range known {
			if s.ID == control.ShortID(id) {
				n++
			}
		}
		switch {
		case n == 0:
			return failure(fmt.Errorf("session end: no session %q is open; `belljar session list` shows those that are. Nothing was ended", policies.Clip(id, 64)))
		case n > 1:
			return failure(fmt.Errorf("session end: %d sessions have ids that begin with %q; end them with --tenant or --all. Nothing was ended", n, control.ShortID(id)))
		}
	}
	ended := []control.Session{}
	var failed error // what was ended is printed all the same
	for _, at := range found {
		want := control.End{Note: o.note}
		for _, s := range at.Said {
			if len(args) == 0 || slices.ContainsFunc(args, func(id string) bool { return control.ShortID(id) == s.ID }) {
				want.Sessions = append(want.Sessions, s.ID)
			}
		}
		if len(want.Sessions) == 0 {
			continue
		}
		var done []control.Session
		failed = errors.Join(failed, at.Client.Ask(c.Context(), http.MethodPost, "/sessions/end", want, &done))
		ended = append(ended, done...)
	}
	if o.asJSON {
		return errors.Join(printJSON(c.OutOrStdout(), ended), failure(failed))
	}
	for _, s := range ended {
		fmt.Fprintf(c.OutOrStdout(), "%s of tenant %s: ended, with its box and its background tasks. The agent is notified.\n", s.ID, s.Tenant)
	}
	if len(ended) == 0 && failed == nil {
		fmt.Fprintln(c.OutOrStdout(), "No session is open.")
	}
	return failure(failed)
}

func (o *operating) endJobs(c *cobra.Command, args []string) error {
	if err := o.chosen("job", args); err != nil {
		return err
	}
	found, err := o.jobs(c.Context())
	if err != nil {
		return err
	}
	known := flat(found)
	var ids []int64
	for _, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil {
			return usage("job end: %q: want the number of a task", policies.Clip(arg, 64))
		}
		n := 0
		for _, j := range known {
			if j.ID == id {
				n++
			}
		}
		switch {
		case n == 0:
			return failure(fmt.Errorf("job end: no task %d runs; `belljar job list` shows those that do. Nothing was ended", id))
		case n > 1:
			return failure(fmt.Errorf("job end: %d tasks have the number %d; choose one with --session; `belljar job list` shows whose they are. Nothing was ended", n, id))
		}
		ids = append(ids, id)
	}
	ended := []control.Job{}
	var failed error // what was ended is printed all the same
	for _, at := range found {
		want := map[string][]int64{} // ids of tasks, by session
		for _, j := range at.Said {
			if len(args) == 0 || slices.Contains(ids, j.ID) {
				want[j.Session] = append(want[j.Session], j.ID)
			}
		}
		for session, tasks := range want {
			var done []control.Job
			failed = errors.Join(failed, at.Client.Ask(c.Context(), http.MethodPost, "/jobs/end", control.End{Session: session, Tasks: tasks}, &done))
			ended = append(ended, done...)
		}
	}
	if o.asJSON {
		return errors.Join(printJSON(c.OutOrStdout(), ended), failure(failed))
	}
	for _, j := range ended {
		fmt.Fprintf(c.OutOrStdout(), "task %d of session %s, tenant %s: ended, with all it had started. The agent is notified.\n", j.ID, j.Session, j.Tenant)
	}
	if len(ended) == 0 && failed == nil {
		fmt.Fprintln(c.OutOrStdout(), "No background task runs.")
	}
	return failure(failed)
}
