package main

import (
	"errors"
	"fmt"
	"io"
	"os/signal"

	"github.com/spf13/cobra"

	"belljar.dev/sandbox/protect"
	"belljar.dev/sandbox/workspace"
)

func workspaceApplyCommand() *cobra.Command {
	var (
		k    kept
		opts workspace.Options
	)
	c := &cobra.Command{
		Use:   "apply SET [PATH...]",
		Short: "take the changes of a set over into its directory",
		Long: `apply makes the directory what the set made of it, file by file: a crash leaves
each as it was or as it is to be, and apply run again does the rest. A PATH is a
file, a directory or a pattern such as src/**/*.go; without one all is applied, and
the set begins anew.

With --as and the digest that diff ended with, only the changes that diff showed are
applied, and nothing if the set has changed since. While a box works in the set one
of --as and --live is needed.

If the directory changed as well since the set was made, nothing is applied.
Protected paths, such as git's hooks and configuration and the settings of editors and
agents, stay in the set; docs/protected-paths.md names them.
` + exitHelp,
		Args: atLeastOne("a set, which `belljar workspace list` shows, and the paths to apply if not all"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := signal.NotifyContext(c.Context(), stop...)
			defer cancel()
			opts.Paths, opts.Guard = args[1:], protect.Changes
			return k.with(func(s *workspace.Store) error {
				r, err := s.Apply(ctx, args[0], opts)
				if err != nil && !errors.Is(err, workspace.ErrConflict) {
					return failure(err)
				}
				if k.asJSON {
					if err := printJSON(c.OutOrStdout(), r); err != nil {
						return err
					}
				} else {
					applied(c.OutOrStdout(), r, opts.DryRun)
				}
				return failure(err)
			})
		},
	}
	k.flags(c)
	c.Flags().BoolVar(&opts.SkipConflicts, "skip-conflicts", false, "leave out what changed in the directory as well, and apply the rest")
	c.Flags().BoolVar(&opts.Protected, "protected", false, "apply protected paths too: what they contain can run on this machine")
	c.Flags().StringVar(&opts.As, "as", "", "apply only what a diff of the same paths showed, by the `digest` that it ended with")
	c.Flags().BoolVar(&opts.Live, "live", false, "apply the set as it is now, even if a box works in it; it may differ from what a diff showed")
	c.Flags().BoolVar(&opts.DryRun, "dry-run", false, "only say what would be done")
	return c
}

// applied prints a report of apply, for people.
func applied(out io.Writer, r *workspace.Report, dry bool) {
	for i := range r.Applied {
		fmt.Fprintln(out, changeLine(&r.Applied[i]))
	}
	for _, s := range r.Conflicts {
		fmt.Fprintf(out, "conflict %s: %s\n", workspace.Quote(s.Path), s.Reason)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(out, "skipped %s: %s\n", workspace.Quote(s.Path), s.Reason)
	}
	verb := "applied"
	if dry {
		verb = "would be applied"
	}
	fmt.Fprintf(out, "%d %s, %d conflicts, %d skipped", len(r.Applied), verb, len(r.Conflicts), len(r.Skipped))
	switch {
	case r.Emptied:
		fmt.Fprintln(out, "; the set begins anew")
	case r.Live && !dry:
		fmt.Fprintln(out, "; a box works in the set, which keeps its layers")
	default:
		fmt.Fprintln(out)
	}
}

func workspaceDiscardCommand() *cobra.Command {
	return storeCommand("discard SET...", "discard what sets changed", `discard removes sets with all that was changed in them. Their directories stay
as they are. This cannot be undone.
`, atLeastOne("the sets to discard, which `belljar workspace list` shows"), func(s *workspace.Store, args []string) error {
		for _, id := range args {
			if err := s.Discard(id); err != nil {
				return err
			}
		}
		return nil
	})
}

func workspaceForkCommand() *cobra.Command {
	return storeCommand("fork SET NEW", "make a second set that is what the first is now", `fork makes a set NEW that is what SET is now; from then on each changes
by itself. It takes the same time for any directory. Of a set that a box works in, what
was changed last is copied.
`, exactly(2, "a set, which `belljar workspace list` shows, and the name of the new one"), func(s *workspace.Store, args []string) error { return s.Fork(args[0], args[1]) })
}

func workspaceCheckpointCommand() *cobra.Command {
	return storeCommand("checkpoint SET NAME", "remember what a set is now", `checkpoint remembers what a set is now under a name, to roll back to. Of a set
that a box works in, what was changed last is copied.
`, exactly(2, "a set, which `belljar workspace list` shows, and a name for the checkpoint"), func(s *workspace.Store, args []string) error { return s.Checkpoint(args[0], args[1]) })
}

func workspaceRollbackCommand() *cobra.Command {
	return storeCommand("rollback SET NAME", "make a set what it was at a checkpoint", `rollback makes a set what it was at a checkpoint. What came later is lost, with
later checkpoints. A set that a box works in is refused: end the session first.
`, exactly(2, "a set and one of its checkpoints, which `belljar workspace list SET` shows"), func(s *workspace.Store, args []string) error { return s.Rollback(args[0], args[1]) })
}

// storeCommand returns a command that makes one change in the store and prints nothing.
func storeCommand(use, short, long string, args cobra.PositionalArgs, do func(s *workspace.Store, args []string) error) *cobra.Command {
	var k kept
	c := &cobra.Command{
		Use: use, Short: short, Long: long + exitHelp, Args: args,
		RunE: func(_ *cobra.Command, args []string) error {
			return k.with(func(s *workspace.Store) error { return failure(do(s, args)) })
		},
	}
	c.Flags().StringVar(&k.state, "state", "", "`directory` for what outlives the program (default: $XDG_STATE_HOME/belljar)")
	return c
}
