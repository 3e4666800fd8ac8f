package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"belljar.dev/sandbox/workspace"
)

func workspaceCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "workspace",
		Short: "look at what boxes changed, and apply, discard, fork or roll it back",
		Long: `workspace works on the sets that boxes with an overlay workspace leave in the
state directory: what they changed, beside the directory that they see. Nothing
reaches that directory until it is applied.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(workspaceListCommand(), workspaceDiffCommand(), workspaceApplyCommand(), workspaceDiscardCommand(),
		workspaceForkCommand(), workspaceCheckpointCommand(), workspaceRollbackCommand(), workspacePruneCommand())
	return c
}

func workspaceListCommand() *cobra.Command {
	var k kept
	c := &cobra.Command{
		Use:   "list [SET]",
		Short: "list the sets with their directories and checkpoints",
		Long: `list prints the sets: whose each is, when it was made, how many paths it changes,
its state and its directory. For a SET it prints its checkpoints, the oldest first,
each with the call after which it was made.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			return k.with(func(s *workspace.Store) error {
				if len(args) == 1 {
					return k.one(c.OutOrStdout(), s, args[0])
				}
				all, err := s.List()
				if err != nil {
					return failure(err)
				}
				sets := counted(c.Context(), s, all)
				if k.asJSON {
					return printJSON(c.OutOrStdout(), sets)
				}
				if len(sets) == 0 {
					_, err := fmt.Fprintln(c.OutOrStdout(), "There are no sets.")
					return failure(err)
				}
				w := newTable(c.OutOrStdout())
				for _, i := range sets {
					changes := "?"
					if i.Changes != nil {
						changes = strconv.Itoa(*i.Changes)
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", i.ID, cmp.Or(i.Tenant, "-"), i.Created.Local().Format("2006-01-02 15:04"), changes, state(i.Info), workspace.Quote(i.Base))
				}
				return failure(w.Flush())
			})
		},
	}
	k.flags(c)
	return c
}

// countedSet is a set and the number of paths that it changes; nil if the number cannot be
// found out, for example while the set is applied.
type countedSet struct {
	workspace.Info
	Changes *int   `json:"changes"`
	Why     string `json:"changes_unknown,omitempty"` // reason why the number is not known
}

func counted(ctx context.Context, s *workspace.Store, all []workspace.Info) []countedSet {
	sets := make([]countedSet, 0, len(all))
	for _, i := range all {
		one := countedSet{Info: i}
		if n, err := s.Count(ctx, i.ID); err == nil {
			one.Changes = &n
		} else {
			one.Why = err.Error()
		}
		sets = append(sets, one)
	}
	return sets
}

// one lists the checkpoints of a set.
func (k *kept) one(out io.Writer, s *workspace.Store, id string) error {
	info, err := s.Info(id)
	if err != nil {
		return failure(err)
	}
	if k.asJSON {
		return printJSON(out, info)
	}
	w := newTable(out)
	for _, p := range info.Checkpoints {
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, p.Time.Local().Format("2006-01-02 15:04:05"), workspace.Quote(p.Note))
	}
	return failure(w.Flush())
}

// state returns the state of a set, in words.
func state(i workspace.Info) string {
	if i.Torn != "" {
		return i.Torn
	}
	var words []string
	if i.Live {
		words = append(words, "live")
	}
	if i.Interrupted {
		words = append(words, "apply was interrupted, run it again")
	}
	calls := 0
	for _, p := range i.Checkpoints {
		if p.Call {
			calls++
			continue
		}
		words = append(words, "@"+p.Name)
	}
	if calls > 0 {
		words = append(words, fmt.Sprintf("(%s of calls)", numbered(uint64(calls), "checkpoint")))
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, " ")
}

func workspaceDiffCommand() *cobra.Command {
	var (
		k             kept
		unified, stat bool
	)
	c := &cobra.Command{
		Use:   "diff SET [PATH...]",
		Short: "show what a set changed",
		Long: `diff lists what a set changed of its directory: A added, M modified, D deleted,
m mode, a attributes, t time of change only. A PATH is a file, a directory or a
pattern such as src/**/*.go. With -u the changes are shown as git diff shows them.
Both end with a digest of what they show; apply --as applies exactly that.
` + exitHelp,
		Args: atLeastOne("a set, which `belljar workspace list` shows, and the paths to compare if not all"),
		RunE: func(c *cobra.Command, args []string) error {
			if unified && (k.asJSON || stat) || k.asJSON && stat {
				return usage("diff: choose one of --json, --unified and --stat")
			}
			return k.with(func(s *workspace.Store) error {
				if unified {
					return failure(s.Unified(c.Context(), c.OutOrStdout(), args[0], args[1:]))
				}
				d, err := s.Changes(c.Context(), args[0], args[1:]...)
				if err != nil {
					return failure(err)
				}
				switch {
				case k.asJSON:
					return printJSON(c.OutOrStdout(), d)
				case stat:
					return summary(c.OutOrStdout(), d)
				}
				for i := range d.Changes {
					fmt.Fprintln(c.OutOrStdout(), changeLine(&d.Changes[i]))
				}
				if d.Digest != "" {
					fmt.Fprintln(c.OutOrStdout(), "# digest "+d.Digest)
				}
				return nil
			})
		},
	}
	k.flags(c)
	c.Flags().BoolVarP(&unified, "unified", "u", false, "show the text of the changes, in the form that git apply and patch read")
	c.Flags().BoolVar(&stat, "stat", false, "show how much changed")
	return c
}

// marks are the letters that stand for the kinds of changes.
var marks = map[workspace.Kind]string{
	workspace.Added: "A", workspace.Modified: "M", workspace.Deleted: "D",
	workspace.Mode: "m", workspace.Attr: "a", workspace.Touched: "t",
}

// summary prints the number of changes of each kind, and the sizes before and after.
func summary(out io.Writer, d *workspace.Diff) error {
	counts := map[workspace.Kind]int{}
	var more, less int64
	for i := range d.Changes {
		c := &d.Changes[i]
		counts[c.Kind]++
		more, less = more+c.Size, less+c.WasSize
	}
	_, err := fmt.Fprintf(out, "%d added, %d modified, %d deleted, %d other; %d bytes where there were %d; %d conflicts\n",
		counts[workspace.Added], counts[workspace.Modified], counts[workspace.Deleted],
		counts[workspace.Mode]+counts[workspace.Attr]+counts[workspace.Touched], more, less, len(d.Conflicts()))
	return failure(err)
}
