package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/internal/printable"
	"belljar.dev/internal/server"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/workspace"
)

// forwarded contains the signals that `run` passes on to the command.
var forwarded = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// exitTimedOut is the exit status if belljar ended the command at its time limit.
// timeout(1) uses the same.
const exitTimedOut = 124

func runCommand() *cobra.Command {
	var (
		s       = setup{Config: server.Config{Command: "run"}}
		profile string
		set     string
		ports   []string
	)
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT...]",
		Short: "run a command in a box with this terminal",
		Long: `run starts a command in a box, with the standard input, output and error of
this process, passes SIGINT, SIGTERM, SIGHUP and SIGQUIT on to it, and ends as
it ends. On a terminal the command gets one of its own. It may run as long as
the profile lets background jobs run. With -p a port of the box is opened on
this machine's loopback, if the profile lists it under publish.

With an overlay workspace, which --workspace-mode overlay asks for, the changes
land in a set beside the directory, and the last lines on standard error name it
and say how to look at it, apply it and discard it.

Exit status: that of the command; 128+n if signal n ended it; 124 if its
time was up; 125 if belljar could not run it.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &statusError{code: exitRun, err: errors.New("run: no command; write it after --, as in `belljar run -- make test`")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			maps, err := readPortMaps(ports)
			if err != nil {
				return &statusError{code: exitRun, err: fmt.Errorf("run: %w", err)}
			}
			code, left, err := runInBox(c, &s, profile, set, maps, args)
			left.tell(c.ErrOrStderr())
			if err != nil {
				return &statusError{code: exitRun, err: fmt.Errorf("run %s: %w", args[0], err)}
			}
			if code != exitOK {
				return &statusError{code: code}
			}
			return nil
		},
	}
	s.flags(c)
	s.mode.flag(c)
	s.callsFlag(c)
	s.tenantFlag(c)
	c.Flags().StringVar(&profile, "profile", "", "`name` of a profile of the policy (default: the profile that the policy gives the command)")
	c.Flags().StringVar(&set, "set", "run", "with an overlay workspace, the `name` of the set that keeps the changes; the next run with it continues there")
	c.Flags().StringArrayVarP(&ports, "publish", "p", nil, "open a `port` of the box here: PORT, HOSTPORT:PORT or ADDRESS:HOSTPORT:PORT; host port 0 takes a free one")
	// The words after the command's name belong to the command.
	c.Flags().SetInterspersed(false)
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &statusError{code: exitRun, err: fmt.Errorf("%w; put the flags of the command after --", flagFault(c, err))}
	})
	return c
}

// leftSet is the set in which a run has left its changes, if they are not in the workspace.
// The zero value is for a run that has left none.
type leftSet struct {
	id      string
	state   string // value of --state
	changes int
	unread  error // why the changes cannot be counted
}

// leftBy examines a set after its box was closed.
func leftBy(ctx context.Context, id, state, stateFlag string) leftSet {
	left := leftSet{id: id, state: stateFlag}
	store, err := workspace.Open(filepath.Join(state, sandbox.WorkspacesDir))
	if err != nil {
		left.unread = err
		return left
	}
	defer store.Close()
	d, err := store.Changes(ctx, id)
	switch {
	case errors.Is(err, workspace.ErrNotFound): // nothing was changed in it
		return leftSet{}
	case err != nil:
		left.unread = err
		return left
	}
	left.changes = len(d.Changes)
	return left
}

// tell prints what was left and what can be done with it, or nothing if nothing was left.
func (l leftSet) tell(w io.Writer) {
	if l.id == "" || l.changes == 0 && l.unread == nil {
		return
	}
	what := number(l.changes, "change is", "changes are")
	if l.unread != nil {
		what = fmt.Sprintf("changes that cannot be counted (%v) are", l.unread)
	}
	fmt.Fprintf(w, "belljar: run: %s in the set %s, and not in the workspace\n", what, l.id)
	for _, do := range [][2]string{{"diff", "shows them"}, {"apply", "applies them to the workspace"}, {"discard", "discards them"}} {
		fmt.Fprintf(w, "  belljar workspace %s %s%s  %s\n", do[0], l.id, config.StateArgument(l.state), do[1])
	}
}

// runInBox runs argv, and returns its exit status and the set in which it has left changes.
func runInBox(c *cobra.Command, s *setup, profile, set string, ports []portMap, argv []string) (code int, left leftSet, err error) {
	// From here on, signals are for the command; before, they end the program.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, append(slices.Clip(forwarded), syscall.SIGWINCH)...)
	defer signal.Stop(signals)

	srv, err := s.open(c.Context(), c.ErrOrStderr())
	if err != nil {
		return 0, left, err
	}
	id := "" // id of the set to which the box writes
	defer func() {
		srv.Close()
		if id != "" {
			left = leftBy(context.WithoutCancel(c.Context()), id, srv.State, s.State)
		}
	}()
	// For the policy, this is the same as a call of Bash by the agent.
	started := time.Now()
	d, call, err := srv.Decide(c.Context(), policies.Facts{
		Tenant: srv.Tenant, Session: "run", Tool: "Bash", Profile: profile, Command: config.Quote(argv),
		Args: map[string]any{"command": config.Quote(argv)}, Now: started,
	})
	if err != nil {
		return 0, left, err
	}
	if d.Verdict != policies.Allow {
		return 0, left, errors.New(d.Refusal(""))
	}
	var result sandbox.Result
	defer func() { srv.Ran(call, d, result, err, time.Since(started)) }()
	ctx := c.Context()
	screen := newScreen(c)
	box, err := srv.Sandbox().Open(ctx, set, d.Grant)
	if err != nil {
		return 0, left, err
	}
	id = box.Set()
	if err := publishAll(ctx, c.ErrOrStderr(), box, ports); err != nil {
		return 0, left, err
	}
	shows := srv.Record(call, d, screen.shape())
	defer shows.End()
	job, err := box.Start(ctx, sandbox.Cmd{
		Grant: d.Grant, Argv: argv,
		// The longer of the two limits applies, since a person waits here and can end the
		// command.
		Timeout: d.Grant.Limits().Background, Background: true,
		// The output of the command is not changed: on a terminal, the command has a
		// session on that terminal.
		In: c.InOrStdin(), Out: shows.Through(printable.Raw(c.OutOrStdout())), Err: shows.Through(printable.Raw(c.ErrOrStderr())), Terminal: screen.size(), Alone: true,
		Env: screen.env(),
	})
	if err != nil {
		return 0, left, err
	}
	restore, err := screen.raw()
	if err != nil {
		job.Kill(0)
		return 0, left, err
	}
	defer restore()
	for {
		select {
		case got := <-signals:
			if got == syscall.SIGWINCH {
				if size := screen.size(); size != nil {
					_ = job.Resize(*size) // a command that ends meanwhile has no size
					shows.Resized(size.Columns, size.Rows)
				}
				continue
			}
			if sig, ok := got.(syscall.Signal); ok {
				if err := job.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
					srv.Log.Warn("pass signal on", "signal", sig, "err", err)
				}
			}
		case <-job.Done():
			if result, err = job.Wait(ctx); err != nil {
				return 0, left, err
			}
			if s.Checkpoints {
				if _, err := box.Checkpoint(ctx, config.Quote(argv)); err != nil {
					srv.Log.Warn("no checkpoint was made", "err", err)
				}
			}
			code, err = exitOf(c, result, d.Grant.Limits())
			return code, left, err
		}
	}
}

// exitOf returns the exit status for a result, and prints a line if the command itself did
// not choose that status.
func exitOf(c *cobra.Command, r sandbox.Result, limits policies.Limits) (int, error) {
	for _, b := range r.Blocked {
		fmt.Fprintf(c.ErrOrStderr(), "belljar: run: %s\n", b.Refusal())
	}
	switch r.Status {
	case sandbox.TimedOut:
		fmt.Fprintf(c.ErrOrStderr(), "belljar: run: stopped after %s, the profile's limit\n", limits.Background)
		return exitTimedOut, nil
	case sandbox.OOM:
		fmt.Fprintf(c.ErrOrStderr(), "belljar: run: stopped at %d MiB, the profile's memory limit\n", limits.Memory>>20)
	case sandbox.Killed:
		if r.Code == 0 {
			return 0, errors.New("the command was stopped from outside")
		}
	case sandbox.Running, sandbox.Exited:
	}
	return r.Code, nil
}
