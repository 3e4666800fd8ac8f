package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/internal/diskfile"
)

func browserListCommand() *cobra.Command {
	state, tenant, asJSON := "", "", false
	c := &cobra.Command{
		Use:   "list",
		Short: "list the browsers that agents use",
		Long: `list shows the browsers that agents use on the servers that run as you: whose each
is, whether a Chrome runs for it (live), stands still since nobody has used it for a
minute (frozen) or was ended for that (parked), its tabs and memory, and who has stopped
the acts in it.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			found, err := findBrowsers(c.Context(), state, func(b control.Browser) bool { return tenant == "" || b.Tenant == tenant })
			if err != nil {
				return err
			}
			all := []control.Browser{}
			for _, w := range found {
				all = append(all, w.Browser)
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), all)
			}
			t := newTable(c.OutOrStdout())
			fmt.Fprintln(t, "BROWSER\tTENANT\tPROFILE\tSTATE\tTABS\tMEMORY\tHELD BY")
			for _, b := range all {
				held := "-"
				if !b.HeldSince.IsZero() {
					held = fmt.Sprintf("%s since %s", b.HeldBy, b.HeldSince.Format(time.TimeOnly))
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d MiB\t%s\n", b.ID, b.Tenant, b.Profile, b.State, b.Tabs, b.Memory>>20, held)
			}
			return failure(t.Flush())
		},
	}
	c.Flags().StringVar(&state, stateName, "", "state `directory` of the servers (default: $XDG_STATE_HOME/belljar)")
	c.Flags().StringVar(&tenant, "tenant", "", "only those of this `tenant`")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// watched is a browser that an agent uses, and the server in which it runs.
type watched struct {
	control.Browser
	client *control.Client
}

// findBrowsers finds the browsers that agents use on all servers of a state directory.
func findBrowsers(ctx context.Context, state string, want func(control.Browser) bool) (all []watched, err error) {
	dir, err := config.KnownState(state)
	if err != nil {
		return nil, failure(err)
	}
	found, err := control.Each[[]control.Browser](ctx, dir, "/browsers")
	for _, at := range found {
		for _, b := range at.Said {
			if want(b) {
				all = append(all, watched{b, at.Client})
			}
		}
	}
	return all, failure(err)
}

// findBrowser finds the browser with an id. Two servers may each have a browser with this
// id.
func findBrowser(ctx context.Context, state, id string) (w watched, err error) {
	found, err := findBrowsers(ctx, state, func(b control.Browser) bool { return b.ID == id })
	switch {
	case err != nil:
		return w, err
	case len(found) == 0:
		return w, failure(fmt.Errorf("no agent uses a browser %q; `belljar browser list` shows those that do", id))
	case len(found) > 1:
		return w, failure(fmt.Errorf("%d servers have a browser %q, so the id is ambiguous; name the state directory of one with --state", len(found), id))
	}
	return found[0], nil
}

// ask sends the server a request about the browser.
func (w watched) ask(ctx context.Context, method, what string, out any) error {
	return failure(w.client.Ask(ctx, method, "/browsers/"+url.PathEscape(w.ID)+"/"+what, nil, out))
}

// watchEvery is how often a picture is taken: each makes a call of the agent wait for it.
const watchEvery = time.Second

func browserWatchCommand() *cobra.Command {
	state, to, once := "", "", false
	c := &cobra.Command{
		Use:   "watch ID",
		Short: "keep a picture of what a browser of an agent shows",
		Long: `watch writes what the browser shows to a file, as a JPEG, and writes it anew when that
changes, at most once a second, until you end it (Ctrl-C) or the browser ends. An image viewer that
follows its file shows it. Secrets are covered as they are for the agent. No picture
is taken while nobody watches.

  belljar browser watch b-3f2a --to /tmp/browser.jpg
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			if to == "" {
				return usage("--to names the file for the picture")
			}
			if err := replaceable(to); err != nil {
				return failure(err)
			}
			ctx, end := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer end()
			w, err := findBrowser(ctx, state, args[0])
			if err != nil {
				return err
			}
			return watch(ctx, c, w, state, to, once)
		},
	}
	c.Flags().StringVar(&state, stateName, "", "state `directory` of the servers (default: $XDG_STATE_HOME/belljar)")
	c.Flags().StringVar(&to, "to", "", "`file` for the picture")
	c.Flags().BoolVar(&once, "once", false, "write one picture")
	return c
}

// watch writes what a browser shows until ctx or the browser ends.
func watch(ctx context.Context, c *cobra.Command, w watched, state, to string, once bool) error {
	var last []byte
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		var p control.Picture
		err := w.ask(ctx, http.MethodGet, "picture", &p)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && once:
			return err
		case err != nil: // a dialog waits, a call takes long, or the browser has ended
			if _, gone := findBrowser(ctx, state, w.ID); gone != nil {
				return err
			}
		case !bytes.Equal(p.JPEG, last):
			if err := diskfile.Replace(to, p.JPEG, 0o600); err != nil {
				return failure(err)
			}
			last = p.JPEG
			fmt.Fprintf(c.OutOrStdout(), "%s %s %dx%d, %d bytes\n", time.Now().Format(time.TimeOnly), to, p.Width, p.Height, len(p.JPEG))
		}
		if once {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// holdVerb is the name of the command that stops the acts in a browser.
const holdVerb = "hold"

func browserHoldCommand() *cobra.Command {
	return holdCommand(holdVerb, "stop what an agent does in its browser", `hold has belljar refuse all further steps of the agent in a browser, and waits until the
one that is under way has ended, at most ten seconds. The agent is notified that a person has stopped it. It can
look; the page itself keeps running. `+"`belljar browser release`"+` lets the agent continue. Both are in the
audit log.
`, "held")
}

func browserReleaseCommand() *cobra.Command {
	return holdCommand("release", "let an agent continue in its browser", `release takes back what `+"`belljar browser hold`"+` did.
`, "released")
}

func holdCommand(verb, short, long, done string) *cobra.Command {
	state := ""
	c := &cobra.Command{
		Use: verb + " ID", Short: short, Long: long + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			w, err := findBrowser(c.Context(), state, args[0])
			if err != nil {
				return err
			}
			var now control.Browser
			if err := w.ask(c.Context(), http.MethodPost, verb, &now); err != nil {
				return stillHeld(c.Context(), state, verb, w, err)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s %s\n", now.ID, done)
			return nil
		},
	}
	c.Flags().StringVar(&state, stateName, "", "state `directory` of the servers (default: $XDG_STATE_HOME/belljar)")
	return c
}

// stillHeld returns the error of a command about a browser. A hold stops the acts even if
// the step that was under way takes longer than a command waits: then the error says so.
func stillHeld(ctx context.Context, state, verb string, w watched, err error) error {
	now, lost := findBrowser(ctx, state, w.ID)
	if verb != holdVerb || lost != nil || now.HeldSince.IsZero() {
		return err
	}
	return failure(fmt.Errorf("the acts in %s are stopped, but the step that was under way may not have ended: %w", w.ID, err))
}
