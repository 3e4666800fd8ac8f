package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/internal/diskfile"
	"belljar.dev/internal/statedir"
)

// stateDir contains the flags of the state commands.
type stateDir struct {
	name   string
	asJSON bool
}

func stateCommand() *cobra.Command {
	var s stateDir
	c := &cobra.Command{
		Use:   "state",
		Short: "measure, back up, restore and prune what servers keep",
		Long: `state looks after the state directory, in which servers keep what must outlive them:
the audit log, tokens, sessions, approvals, tasks, plans and images.

  belljar state sizes
  belljar state backup /var/backups/belljar.tar
  belljar state restore /var/backups/belljar.tar

Run it as the user of the servers.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&s.name, stateName, "", "state `directory` of the servers (default: $XDG_STATE_HOME/belljar)")
	c.AddCommand(s.sizesCommand(), s.backupCommand(), s.restoreCommand(), s.pruneCommand())
	return c
}

func (s *stateDir) sizesCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "sizes", Short: "say how large each part is, and what bounds it",
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := config.KnownState(s.name)
			if err != nil {
				return failure(err)
			}
			sizes, err := statedir.Sizes(c.Context(), dir)
			if errors.Is(err, os.ErrNotExist) {
				sizes, err = []statedir.Size{}, nil // no server has stored anything
			}
			if err != nil {
				return failure(fmt.Errorf("state sizes: %w", err))
			}
			return printSizes(c.OutOrStdout(), sizes, s.asJSON)
		},
	}
	c.Flags().BoolVar(&s.asJSON, "json", false, "print JSON")
	return c
}

func printSizes(out io.Writer, sizes []statedir.Size, asJSON bool) error {
	if asJSON {
		type size struct {
			Name  string `json:"name"`
			Files int64  `json:"files"`
			Bytes int64  `json:"bytes"`
			Saved bool   `json:"saved"`
		}
		all := []size{}
		for _, z := range sizes {
			all = append(all, size{z.Name, z.Files, z.Bytes, z.Saved})
		}
		return printJSON(out, all)
	}
	if len(sizes) == 0 {
		fmt.Fprintln(out, "No server has stored anything there.")
		return nil
	}
	w := newTable(out)
	fmt.Fprintln(w, "PART\tFILES\tKIB\tIN A BACKUP\tWHAT\tAT MOST")
	for _, z := range sizes {
		in := "no"
		if z.Saved {
			in = "yes"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\n", z.Name, z.Files, (z.Bytes+1023)>>10, in, z.What, z.Bound)
	}
	return w.Flush()
}

func (s *stateDir) backupCommand() *cobra.Command {
	return &cobra.Command{
		Use: "backup FILE", Short: "write a backup, while servers run",
		Long: `backup writes a tar archive of the state to a new file that only you can read, or to
standard output for -. Servers may run meanwhile: the database in it is as it was at one
moment, and the audit log ends with a whole record.

It has what cannot be made again. Left out are images, the changes of overlay workspaces
("belljar workspace apply" or "diff" keeps those), and what was learned about search engines.
An audit log that the policy puts elsewhere is not in it, nor is the policy. The file
has the key of the tokens and the key that signs the audit log: keep it like a password.

  belljar state backup /var/backups/belljar.tar
  belljar state backup - | age -r KEY >belljar.tar.age
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := config.KnownState(s.name)
			if err != nil {
				return failure(err)
			}
			if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
				return failure(fmt.Errorf("state backup: no server has stored anything in %s; --state names another directory", dir))
			}
			sum, err := backUp(c.Context(), dir, args[0], c.OutOrStdout())
			if err != nil {
				return failure(fmt.Errorf("state backup: %w", err))
			}
			for _, name := range sum.Skipped {
				fmt.Fprintf(c.ErrOrStderr(), "belljar: left out %q: it is not a file\n", name)
			}
			fmt.Fprintf(c.ErrOrStderr(), "%d files with %d KiB of %s\n", sum.Files, (sum.Bytes+1023)>>10, dir)
			return nil
		},
	}
}

// backUp writes a backup to a new file, which does not exist if that fails.
func backUp(ctx context.Context, dir, name string, out io.Writer) (sum statedir.Summary, err error) {
	if name == "-" {
		w := bufio.NewWriter(out)
		if sum, err = statedir.Backup(ctx, dir, w); err != nil {
			return sum, err
		}
		return sum, w.Flush()
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return sum, err
	}
	if config.Inside(config.RealPath(path), config.RealPath(dir)) {
		return sum, fmt.Errorf("%s lies in the state directory; name a file elsewhere, best on another disk", name)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, os.ErrExist) {
		err = fmt.Errorf("%w; name a file that does not exist yet", err)
	}
	if err != nil {
		return sum, err
	}
	w := bufio.NewWriter(f)
	if sum, err = statedir.Backup(ctx, dir, w); err == nil {
		err = errors.Join(w.Flush(), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return sum, errors.Join(err, os.Remove(path))
	}
	return sum, diskfile.SyncDir(filepath.Dir(path))
}

func (s *stateDir) restoreCommand() *cobra.Command {
	var replace bool
	c := &cobra.Command{
		Use: "restore FILE", Short: "make the state directory of a backup, while no server runs",
		Long: `restore reads a backup (from standard input for -), checks it, and puts it in the
place of the state directory. It refuses while a server uses the directory. If the
directory has something, --replace is needed: it is moved aside, to a name that is
printed, and images and overlay workspaces stay in place.

Sessions, approvals and tokens are then those of the time of the backup: tokens that
were revoked later are valid again, and must be revoked again.

  systemctl stop belljar.service
  belljar state restore --replace /var/backups/belljar.tar
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := config.FindState(s.name)
			if err != nil {
				return failure(err)
			}
			if err := unused(c.Context(), dir); err != nil {
				return failure(fmt.Errorf("state restore: %w", err))
			}
			from := c.InOrStdin()
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return failure(fmt.Errorf("state restore: %w", err))
				}
				defer f.Close()
				from = f
			}
			sum, aside, err := statedir.Restore(c.Context(), dir, bufio.NewReader(from), replace)
			if errors.Is(err, statedir.ErrThere) {
				return failure(fmt.Errorf("state restore: %w; --replace moves it aside", err))
			}
			if err != nil {
				return failure(fmt.Errorf("state restore: %w", err))
			}
			fmt.Fprintf(c.OutOrStdout(), "%d files of %s are in %s.\n", sum.Files, sum.Made.Local().Format(time.DateTime), dir)
			if aside != "" {
				fmt.Fprintf(c.OutOrStdout(), "The previous state is in %s.\n", aside)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&replace, "replace", false, "move what is in the state directory aside")
	return c
}

// unused checks that no server uses a state directory.
func unused(ctx context.Context, dir string) error {
	_, servers, err := control.Boxes(ctx, dir)
	if err != nil {
		return err
	}
	if len(servers) == 0 {
		return nil
	}
	var pids []string
	for _, server := range servers {
		pids = append(pids, fmt.Sprint(server.PID))
	}
	return fmt.Errorf("%s is used by a server (process %s); stop it first", dir, strings.Join(pids, ", "))
}

func (s *stateDir) pruneCommand() *cobra.Command {
	var older time.Duration
	var dry bool
	c := &cobra.Command{
		Use: "prune", Short: "remove leftovers, and old recordings of terminals",
		Long: `prune removes files that killed programs left, and with --older-than
recordings of terminals ("belljar audit cast") that are older. The policy says how much
of the audit log is kept (rotate, keep); "belljar image prune" and "belljar workspace
prune" remove images and layers.

  belljar state prune --older-than 30d --dry-run
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := config.KnownState(s.name)
			if err != nil {
				return failure(err)
			}
			all, err := statedir.Prune(dir, older, dry)
			if errors.Is(err, os.ErrNotExist) {
				all, err = []statedir.Pruned{}, nil // no server has stored anything
			}
			how := "removed"
			if dry {
				how = "would be removed"
			}
			if s.asJSON {
				return failure(errors.Join(err, printJSON(c.OutOrStdout(), all)))
			}
			for _, p := range all {
				fmt.Fprintf(c.OutOrStdout(), "%s %s, %d KiB\n", p.Name, how, (p.Bytes+1023)>>10)
			}
			if err != nil {
				return failure(fmt.Errorf("state prune: %w", err))
			}
			return nil
		},
	}
	c.Flags().Var((*spanFlag)(&older), "older-than", "recordings that are older than this `time`, such as 30d")
	c.Flags().BoolVar(&dry, "dry-run", false, "remove nothing, and print what would be removed")
	c.Flags().BoolVar(&s.asJSON, "json", false, "print JSON")
	return c
}
