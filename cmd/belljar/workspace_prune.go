package main

import (
	"errors"
	"fmt"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/sandbox/workspace"
)

func workspacePruneCommand() *cobra.Command {
	var (
		k    kept
		opts workspace.PruneOptions
	)
	c := &cobra.Command{
		Use:   "prune",
		Short: "discard sets that nobody used for long, or that changed nothing",
		Long: `prune removes sets with all their changes, like discard: with
--empty those that changed nothing and have no checkpoint, with --older-than those
that no box, fork, checkpoint or apply used for so long, with both flags the sets
that both select. Sets that a box works in are kept, and those with an interrupted apply.

  belljar workspace prune --older-than 30d --dry-run
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			if opts.Unused == 0 && !opts.Empty {
				return usage("workspace prune: say which sets: give --empty, or --older-than with a time such as 30d")
			}
			ctx, cancel := signal.NotifyContext(c.Context(), stop...)
			defer cancel()
			return k.with(func(s *workspace.Store) error {
				all, err := s.Prune(ctx, opts)
				if k.asJSON {
					return errors.Join(printJSON(c.OutOrStdout(), all), failure(err))
				}
				for _, p := range all {
					how := "removed"
					switch {
					case !p.Removed:
						how = "kept: " + p.Kept
					case opts.DryRun:
						how = "would be removed"
					}
					fmt.Fprintf(c.OutOrStdout(), "%s %s, used %s: %s\n", p.ID, workspace.Quote(p.Base), p.Used.Local().Format(time.DateOnly), how)
				}
				return failure(err)
			})
		},
	}
	k.flags(c)
	c.Flags().Var((*spanFlag)(&opts.Unused), "older-than", "only sets that nothing used for this `time`, such as 30d")
	c.Flags().BoolVar(&opts.Empty, "empty", false, "only sets that changed nothing")
	c.Flags().BoolVar(&opts.DryRun, "dry-run", false, "only say what would be removed")
	return c
}
