package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/sandbox"
)

func portsCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use:   "ports",
		Short: "open a port of a box on this machine's loopback",
		Long: `ports lists what listens in the boxes of your running servers, and what of it
can be opened from this machine. "ports open" publishes a port of a box on a
loopback address, if the box's profile lists the port under publish; it stays
open until "ports close" or the end of the box.
` + exitHelp,
	}
	asJSON := false
	c.RunE = func(c *cobra.Command, _ []string) error {
		boxes, _, err := findBoxes(c.Context(), state)
		if err != nil {
			return failure(err)
		}
		if asJSON {
			return printJSON(c.OutOrStdout(), boxes)
		}
		return failure(listPorts(c.OutOrStdout(), boxes))
	}
	box, at := "", ""
	open := &cobra.Command{
		Use:   "open PORT",
		Short: "publish a port of a box",
		Long: `open publishes a port of a box and prints the address on this machine.
` + exitHelp,
		Example: "  belljar ports open 3000\n  belljar ports open 3000 --at 127.0.0.1:8080",
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := control.HostPort(at); err != nil {
				return usage("%w", err)
			}
			info, err := askPort(c.Context(), state, "/publish", box, args[0], at)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), info)
			}
			fmt.Fprintln(c.OutOrStdout(), info.At)
			return nil
		},
	}
	open.Flags().StringVar(&box, "box", "", "the box's `id` (default: the only one that listens on the port, or the only one)")
	open.Flags().StringVar(&at, "at", "", "loopback `address` and port on this machine (default: 127.0.0.1 and a free port)")
	shut := &cobra.Command{
		Use:   "close PORT",
		Short: "take a published port back",
		Long: `close ends a published port, at each address where it was opened, and the
connections through it.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error {
			info, err := askPort(c.Context(), state, "/unpublish", box, args[0], "")
			if err != nil || !asJSON {
				return err
			}
			return printJSON(c.OutOrStdout(), info)
		},
	}
	shut.Flags().StringVar(&box, "box", "", "the box's `id` (default: the only one that publishes the port)")
	c.PersistentFlags().StringVar(&state, "state", "", "state `directory` of the server (default: $XDG_STATE_HOME/belljar)")
	for _, each := range []*cobra.Command{c, open, shut} {
		each.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	}
	c.AddCommand(open, shut)
	return c
}

func psCommand() *cobra.Command {
	var (
		state  string
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "ps",
		Short: "list the boxes of your running servers",
		Long: `ps lists the boxes of the servers that run as you: the server's process, the
box's id, which is that of its session, whose it is, its profile and how many
background jobs run in it.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			boxes, _, err := findBoxes(c.Context(), state)
			if err != nil {
				return failure(err)
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), boxes)
			}
			t := newTable(c.OutOrStdout())
			fmt.Fprintln(t, "SERVER\tBOX\tTENANT\tPROFILE\tJOBS")
			for _, b := range boxes {
				fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%d\n", b.Server, b.ID, b.Tenant, b.Profile, b.Jobs)
			}
			return failure(t.Flush())
		},
	}
	c.Flags().StringVar(&state, "state", "", "state `directory` of the server (default: $XDG_STATE_HOME/belljar)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// findBoxes returns the boxes of all servers with a state directory.
func findBoxes(ctx context.Context, state string) ([]control.Box, []*control.Client, error) {
	dir, err := config.KnownState(state)
	if err != nil {
		return nil, nil, err
	}
	return control.Boxes(ctx, dir)
}

func listPorts(to io.Writer, boxes []control.Box) error {
	t := newTable(to)
	fmt.Fprintln(t, "BOX\tPROFILE\tPORT\tON THIS MACHINE")
	for _, b := range boxes {
		at := map[uint16][]string{}
		for _, p := range b.Published {
			at[p.Port] = append(at[p.Port], p.At)
		}
		ports := slices.Clone(b.Listening)
		for port := range at {
			ports = append(ports, port)
		}
		slices.Sort(ports)
		for _, port := range slices.Compact(ports) {
			where := strings.Join(at[port], " ")
			if where == "" {
				where = "-"
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", b.ID, b.Profile, port, where)
		}
	}
	return t.Flush()
}

// askPort asks the server that has the box to act on a port of the box.
func askPort(ctx context.Context, state, what, box, port, at string) (control.Published, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return control.Published{}, usage("port %q: want a number from 1 to 65535", port)
	}
	boxes, clients, err := findBoxes(ctx, state)
	if err != nil {
		return control.Published{}, failure(err)
	}
	chosen, err := choose(boxes, box, uint16(n))
	if err != nil {
		return control.Published{}, failure(err)
	}
	for _, c := range clients {
		if c.PID != chosen.Server {
			continue
		}
		var info control.Published
		err := c.Ask(ctx, http.MethodPost, what, control.Published{Box: chosen.ID, Port: uint16(n), At: at}, &info)
		return info, failure(err)
	}
	return control.Published{}, failure(fmt.Errorf("server %d has gone", chosen.Server))
}

// choose returns the box to which a port belongs: the named box, the box that listens on
// the port or publishes it, or the only box.
func choose(boxes []control.Box, id string, port uint16) (control.Box, error) {
	var named, has []control.Box
	for _, b := range boxes {
		if id != "" && b.ID != control.ShortBox(id) {
			continue
		}
		named = append(named, b)
		if open := slices.ContainsFunc(b.Published, func(p control.Published) bool { return p.Port == port }); open || slices.Contains(b.Listening, port) {
			has = append(has, b)
		}
	}
	switch {
	// If several boxes have the beginning of a whole id, the id may be that of another one.
	case len(has) == 1 && (len(named) == 1 || id == control.ShortBox(id)):
		return has[0], nil
	case id != "" && len(named) > 1:
		return control.Box{}, fmt.Errorf("%d boxes have ids that begin with %q", len(named), control.ShortBox(id))
	case len(has) > 1:
		return control.Box{}, fmt.Errorf("%d boxes have port %d; name one with --box (`belljar ports` lists them)", len(has), port)
	case len(named) == 1:
		return named[0], nil
	case id != "":
		return control.Box{}, fmt.Errorf("no box %q; `belljar ps` lists them", id)
	case len(boxes) == 0:
		return control.Box{}, errors.New("no server with a box is running; a box is opened by the first command of a session")
	}
	return control.Box{}, fmt.Errorf("none of %d boxes listens on port %d; name one with --box", len(boxes), port)
}

// portMap is one -p flag of run: a port of the box, and its address on this machine.
type portMap struct {
	port uint16
	at   netip.AddrPort
}

// readPortMaps reads the -p flags: PORT, HOSTPORT:PORT or ADDRESS:HOSTPORT:PORT.
func readPortMaps(flags []string) ([]portMap, error) {
	var maps []portMap
	for _, f := range flags {
		host, inside := "", f
		if i := strings.LastIndexByte(f, ':'); i >= 0 {
			host, inside = f[:i], f[i+1:]
		}
		n, err := strconv.ParseUint(inside, 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("-p %q: want PORT, HOSTPORT:PORT or ADDRESS:HOSTPORT:PORT, for example -p 8080:3000", f)
		}
		if host == "" {
			host = inside
		}
		at, err := control.HostPort(host)
		if err != nil {
			return nil, fmt.Errorf("-p %q: %w", f, err)
		}
		maps = append(maps, portMap{uint16(n), at})
	}
	return maps, nil
}

// publishAll publishes ports and prints their addresses.
func publishAll(ctx context.Context, errs io.Writer, box *sandbox.Box, maps []portMap) error {
	for _, m := range maps {
		p, err := box.Publish(ctx, m.port, m.at)
		if err != nil {
			return err
		}
		fmt.Fprintf(errs, "belljar: run: port %d is http://%s on this machine\n", p.Port, p.At)
	}
	return nil
}
