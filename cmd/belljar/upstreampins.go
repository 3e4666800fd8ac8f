package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/internal/gateway"
	"belljar.dev/internal/printable"
	"belljar.dev/internal/store"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/policies"
)

// pinning are the flags that choose the pins that a command works on.
type pinning struct {
	*upstreams

	workspace string // value of --workspace
	chosen    bool   // whether --workspace was given
	place     string // name under which pins are kept for the chosen workspace; empty for the operator's files
}

// flags adds the flags that choose pins. With only, a command without these flags is about
// all pins; otherwise it is about those of the local tenant and of the operator's files.
func (p *pinning) flags(c *cobra.Command, only bool) {
	tenant, workspace := "only those of this `tenant`", "only those of entries in files of this `directory`; '' means the files of the operator"
	if !only {
		tenant, workspace = "the `tenant` whose pins are meant (default: local)", "the `directory` in whose files the entries are (default: the files of the operator)"
	}
	c.Flags().StringVar(&p.tenant, "tenant", "", tenant)
	c.Flags().StringVar(&p.workspace, "workspace", "", workspace)
}

// find evaluates --workspace.
func (p *pinning) find(c *cobra.Command) (err error) {
	if p.chosen = c.Flags().Changed("workspace"); p.workspace == "" {
		return nil
	}
	if p.place, err = filepath.Abs(p.workspace); err != nil {
		return failure(err)
	}
	if _, err := os.Stat(p.place); errors.Is(err, fs.ErrNotExist) {
		return nil // pins of a directory that does not exist any more are still kept
	}
	p.place, err = config.FindWorkspace(p.workspace)
	return failure(err)
}

// with calls f with the book of the state directory. If the directory has no database, one
// is created only if writes is set.
func (p *pinning) with(writes bool, f func(b *pin.Book) error) error {
	known := config.KnownState
	if writes {
		known = config.FindState
	}
	state, err := known(p.state)
	if err != nil {
		return failure(err)
	}
	kept := store.New(state)
	if !writes && !kept.Made() {
		kept = store.New("")
	}
	err = errors.Join(f(pin.NewBook(store.Config{Store: kept})), kept.Close())
	if _, says := errors.AsType[*statusError](err); says {
		return err
	}
	return failure(err)
}

// servers returns the servers with pins that the flags and the name choose. An empty name
// chooses all of them, and a name that no server has is an error. A package that a launcher
// fetches for a server has pins of its own, and follows that server in the list.
func (p *pinning) servers(c *cobra.Command, b *pin.Book, name string) ([]pin.Server, error) {
	all, err := b.All(c.Context())
	all = slices.DeleteFunc(all, func(s pin.Server) bool {
		return p.tenant != "" && s.Tenant != p.tenant || p.chosen && s.Place != p.place ||
			name != "" && s.Name != name && s.Name != name+gateway.InstallPins
	})
	if err == nil && len(all) == 0 && name != "" {
		err = fmt.Errorf("%s: no server %q was seen; `belljar upstream pins` shows what has pins", title(c), policies.Clip(name, 64))
	}
	return all, err
}

func pinsCommand(u *upstreams) *cobra.Command {
	p := &pinning{upstreams: u}
	c := &cobra.Command{
		Use: "pins [NAME]", Short: "show what is trusted of servers, and export and import it",
		Long: `pins prints the trusted definitions of servers: the digest of what each runs, and of each
definition that it lists. It works on the state directory, whether a server runs or not.
Pins of an entry in a file that agents can write are those of that workspace.

  belljar upstream pins diff files
  belljar upstream pins export known_upstreams
  belljar upstream pins forget files
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error { return p.list(c, args) },
	}
	diff := &cobra.Command{
		Use: "diff [NAME]", Short: "show what waits for a decision, old beside new",
		Long: `diff shows each definition that is held or gone beside the one that was trusted. Every
hidden character is made visible. The exit status is 1 if something waits.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error { return p.diff(c, args) },
	}
	export := &cobra.Command{
		Use: "export [FILE]", Short: "write pins to a new file, or to standard output",
		RunE: func(c *cobra.Command, args []string) error { return p.export(c, args) },
	}
	load := &cobra.Command{
		Use: "import FILE", Short: "replace the pins of servers by those in a file",
		Long: `import reads what export has written, from standard input for -. The pins take the place
of those that the servers of the file had. Servers that it does not name keep theirs. A FILE
outside your directory of configuration needs --yes: an agent may have written its pins.
` + exitHelp,
	}
	sure := load.Flags().Bool("yes", false, "import also a file outside your directory of configuration")
	load.RunE = func(c *cobra.Command, args []string) error { return p.load(c, args[0], *sure) }
	forget := &cobra.Command{
		Use: "forget [NAME]", Short: "remove the pins of a server: its next contact counts as the first one",
		Long: `forget removes all pins of a server, or with --all those of all servers with the log of
decisions, whatever state they are in. At its next contact a server is trusted or asked
about like a new one.
` + exitHelp,
	}
	all := forget.Flags().Bool("all", false, "those of all servers, and the log")
	forget.RunE = func(c *cobra.Command, args []string) error { return p.forget(c, args, *all) }
	log := &cobra.Command{Use: "log", Short: "show who decided what, the oldest decision first", RunE: func(c *cobra.Command, _ []string) error { return p.log(c) }}
	for _, one := range []*cobra.Command{c, diff, forget} {
		p.flags(one, true)
	}
	for _, one := range []*cobra.Command{export, load} {
		p.flags(one, false)
	}
	log.Flags().StringVar(&p.tenant, "tenant", "", "only those of this `tenant`")
	c.AddCommand(diff, export, load, forget, log)
	return c
}

// nameOf returns the argument NAME of a command; empty if it is missing.
func nameOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// read calls f with the book, and with the servers of a name. An empty name means all
// servers.
func (p *pinning) read(c *cobra.Command, name string, f func(b *pin.Book, all []pin.Server) error) error {
	if err := p.find(c); err != nil {
		return err
	}
	return p.with(false, func(b *pin.Book) error {
		all, err := p.servers(c, b, name)
		if err != nil {
			return err
		}
		return f(b, all)
	})
}

func (p *pinning) list(c *cobra.Command, args []string) error {
	return p.read(c, nameOf(args), func(b *pin.Book, all []pin.Server) error {
		w := newTable(c.OutOrStdout())
		fmt.Fprintln(w, "SERVER\tWHAT\tDIGEST\tSINCE\tBY\tWHOSE")
		n := 0
		for _, s := range all {
			pins, err := b.Export(c.Context(), s.Tenant, s.Place)
			if err != nil {
				return err
			}
			for _, one := range pins {
				// a listing only marks the first contact, so it is not shown
				if one.Server != s.Name || one.Kind == pin.KindListing {
					continue
				}
				n++
				ref := pin.Ref{Kind: one.Kind, Name: one.Name}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", policies.Clip(s.Name, 100), policies.Clip(ref.String(), 100), one.Digest.String()[:len("sha256:")+12],
					one.Since.Local().Format(time.DateTime), one.How, whose(s))
			}
		}
		if n == 0 {
			_, err := fmt.Fprintln(c.OutOrStdout(), "Nothing is trusted yet.")
			return err
		}
		return w.Flush()
	})
}

func (p *pinning) diff(c *cobra.Command, args []string) error {
	return p.read(c, nameOf(args), func(b *pin.Book, all []pin.Server) error {
		waits := 0
		for _, s := range all {
			questions, err := b.Waiting(c.Context(), s)
			if err != nil {
				return err
			}
			if err := printQuestions(c.OutOrStdout(), s, questions); err != nil {
				return err
			}
			for i := range questions {
				if questions[i].State != pin.Held {
					waits++
				}
			}
		}
		if waits > 0 {
			return fmt.Errorf("upstream pins diff: %s; `belljar upstream approve %s` trusts, and deny refuses",
				number(waits, "definition waits for a decision", "definitions wait for a decision"), printable.Operand(nameOf(args)))
		}
		_, err := fmt.Fprintln(c.OutOrStdout(), "Nothing waits for a decision.")
		return err
	})
}

func (p *pinning) export(c *cobra.Command, args []string) error {
	if err := p.find(c); err != nil {
		return err
	}
	return p.with(false, func(b *pin.Book) error {
		pins, err := b.Export(c.Context(), p.tenantOr(), p.place)
		if err != nil {
			return err
		}
		if name := nameOf(args); name != "" && name != "-" { // export has a file as its only argument
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("upstream pins export: %w", err)
			}
			_, err = f.Write(pin.Format(pins))
			if err = errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("upstream pins export: %w", errors.Join(err, os.Remove(name)))
			}
			return nil
		}
		_, err = c.OutOrStdout().Write(pin.Format(pins))
		return err
	})
}

// tenantOr returns the tenant of --tenant, or the local one.
func (p *pinning) tenantOr() string {
	return cmp.Or(p.tenant, policies.LocalTenant)
}

// maxPinsFile is the maximum size of a file of pins, in bytes. One byte more is read, so
// that the parser refuses a larger file.
const maxPinsFile = 16 << 20

func (p *pinning) load(c *cobra.Command, file string, yes bool) error {
	if err := p.find(c); err != nil {
		return err
	}
	text, err := p.pinsOf(c, file, yes)
	if err != nil {
		return failure(fmt.Errorf("upstream pins import: %w", err))
	}
	pins, err := pin.Parse(text)
	if err != nil {
		return failure(fmt.Errorf("upstream pins import: %s: %w", policies.Clip(file, 200), err))
	}
	var servers []string
	for _, one := range pins {
		if !slices.Contains(servers, one.Server) {
			servers = append(servers, one.Server)
		}
	}
	return p.with(true, func(b *pin.Book) error {
		if err := b.Import(c.Context(), p.tenantOr(), p.place, pins, person()); err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "%s of %s imported.\n", numbered(uint64(len(pins)), "pin"), number(len(servers), "server is", "servers are"))
		for _, name := range servers {
			if _, err := p.tell(c.Context(), control.UpstreamChange{What: control.PinsImported, Name: entryName(name), Tenant: p.tenantOr(), Workspace: p.place}); err != nil {
				return err
			}
		}
		return nil
	})
}

// pinsOf reads a file of pins, or standard input. Every definition with one of these pins
// will be trusted, so a file that an agent may have written needs --yes.
func (p *pinning) pinsOf(c *cobra.Command, file string, yes bool) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(io.LimitReader(c.InOrStdin(), maxPinsFile+1)) //nolint:forbidigo // it is bounded
	}
	name, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	text, is, err := readOpened(name, maxPinsFile)
	if err != nil {
		return nil, err
	}
	if why := p.foreign(c.Context(), is, false); why != "" && !yes {
		return nil, fmt.Errorf("an agent may have written the pins of %s: %s. Look at it, and give --yes. Nothing was imported", policies.Clip(file, 200), policies.Clip(why, 300))
	}
	return text, nil
}

// entryName returns the name of the entry that the pins of a name belong to.
func entryName(name string) string { return strings.TrimSuffix(name, gateway.InstallPins) }

// person returns the person who decides at the command line.
func person() pin.Person { return pin.Person{Name: control.Self(), Via: pin.ViaCommand} }

func (p *pinning) forget(c *cobra.Command, args []string, all bool) error {
	if err := p.find(c); err != nil {
		return err
	}
	switch {
	case all == (nameOf(args) != ""): // an empty NAME would mean all servers
		return usage("upstream pins forget: name a server, or give --all")
	case all && p.chosen:
		return usage("upstream pins forget: --all is about all workspaces, so --workspace does not go with it")
	case all:
		return p.with(false, func(b *pin.Book) error { return p.reset(c, b) })
	}
	return p.with(false, func(b *pin.Book) error {
		servers, err := p.servers(c, b, args[0])
		if err != nil {
			return err
		}
		for _, s := range servers {
			if err := b.Forget(c.Context(), s, person()); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: forgotten (%s).\n", policies.Clip(s.Name, 100), whose(s))
			if _, err := p.tell(c.Context(), control.UpstreamChange{What: control.PinsForgotten, Name: entryName(s.Name), Tenant: s.Tenant, Workspace: s.Place}); err != nil {
				return err
			}
		}
		return nil
	})
}

// reset forgets all pins of a tenant, or of all tenants.
func (p *pinning) reset(c *cobra.Command, b *pin.Book) error {
	tenants, err := b.Tenants(c.Context())
	if err != nil {
		return err
	}
	n := 0
	for _, tenant := range tenants {
		if p.tenant != "" && tenant != p.tenant {
			continue
		}
		n++
		if err := b.Reset(c.Context(), tenant, person()); err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "All pins of tenant %s are forgotten.\n", policies.Clip(tenant, 100))
		if _, err := p.tell(c.Context(), control.UpstreamChange{What: control.PinsForgotten, Tenant: tenant}); err != nil {
			return err
		}
	}
	if n == 0 {
		fmt.Fprintln(c.OutOrStdout(), "There are no pins.")
	}
	return nil
}

func (p *pinning) log(c *cobra.Command) error {
	return p.with(false, func(b *pin.Book) error {
		tenants, err := b.Tenants(c.Context())
		if err != nil {
			return err
		}
		n := 0
		for _, tenant := range tenants {
			if p.tenant != "" && tenant != p.tenant {
				continue
			}
			entries, err := b.History(c.Context(), tenant)
			if err != nil {
				return err
			}
			for _, e := range entries {
				n++
				printEntry(c.OutOrStdout(), tenant, e)
			}
		}
		if n == 0 {
			fmt.Fprintln(c.OutOrStdout(), "Nothing was decided yet.")
		}
		return nil
	})
}

// printEntry prints an entry of the log, with its definitions on further lines.
func printEntry(out io.Writer, tenant string, e pin.Entry) {
	by := "nobody"
	if e.By != "" {
		by = fmt.Sprintf("%s by %s", policies.Clip(e.By, 100), e.Via)
	}
	fmt.Fprintf(out, "%s  %s  %s  %s (%s)\n", e.At.Local().Format(time.DateTime), e.What, by, policies.Clip(e.Server, 100), whose(pin.Server{Tenant: tenant, Place: e.Place}))
	for line := range strings.Lines(e.Detail) {
		fmt.Fprintf(out, "  %s\n", policies.Clip(strings.TrimSuffix(line, "\n"), 1500))
	}
}

// tell notifies all running servers of a change of pins. It returns the state of their
// upstreams; nil if no server runs.
func (u *upstreams) tell(ctx context.Context, change control.UpstreamChange) (said []control.Upstreams, err error) {
	state, err := config.KnownState(u.state)
	if err != nil {
		return nil, err
	}
	found, err := control.Each[[]control.Upstreams](ctx, state, "/upstreams")
	for _, at := range found {
		err = errors.Join(err, at.Client.Ask(ctx, http.MethodPost, "/upstreams/changed", change, &struct{}{}))
	}
	if err != nil {
		err = fmt.Errorf("it is recorded, but a running server was not notified, and applies it at its next start: %w", err)
	}
	return flat(found), err
}
