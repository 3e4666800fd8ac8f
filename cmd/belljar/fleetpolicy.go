package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/control"
	"belljar.dev/internal/fleet"
	"belljar.dev/policies"
)

// holdWait is how long `fleet policy put` waits for the workers, and holdLook is how often
// it checks them.
const (
	holdWait = 20 * time.Second
	holdLook = 100 * time.Millisecond
)

// policyCommand returns the command `fleet policy`.
func (o *fleetOptions) policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "policy", Short: "give a policy to all machines of a fleet",
		Long: `policy gives a policy to a fleet: from then on the front and each worker use it
instead of the file of --policy, also after a restart. A worker that is not linked
gets it when it connects. docs/fleet.md says more.

  belljar fleet policy put policy.yaml
  belljar fleet policy status
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	put := &cobra.Command{
		Use: "put FILE", Short: "give the policy in a file to the fleet",
		Long: `put gives the policy in a file to the fleet. The policy may name no further files, and
has to name tenants. If it has a fault, nothing changes. put waits until the workers
that are linked have it, and prints which of them have it.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error { return o.put(c, args[0]) },
	}
	get := &cobra.Command{
		Use: "get", Short: "print the policy that was given to the fleet",
		RunE: func(c *cobra.Command, _ []string) error { return o.get(c) },
	}
	status := &cobra.Command{
		Use: "status", Short: "list which worker has which policy",
		Long: `status lists which policy the front and each worker has. Its status is 1 if a worker
that is linked has another one than the front.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return o.policies(c) },
	}
	for _, one := range []*cobra.Command{put, get, status} {
		one.Flags().StringVar(&o.state, stateName, "", "state `directory` of the front (default: $XDG_STATE_HOME/belljar)")
	}
	status.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	c.AddCommand(put, get, status)
	return c
}

// fleetPolicyName is the flag that allows a policy of the fleet to hold at a front or
// worker.
const fleetPolicyName = "fleet-policy"

// front returns the client of the only front of the state directory.
func (o *fleetOptions) front(ctx context.Context) (*control.Client, error) {
	all, err := fronts(ctx, o.state)
	switch {
	case err != nil:
		return nil, err
	case len(all) > 1:
		return nil, fmt.Errorf("%d servers of yours run with this state directory; name that of one front with --state", len(all))
	}
	return all[0], nil
}

func (o *fleetOptions) put(c *cobra.Command, name string) error {
	text, err := readSmall(name, fleet.MaxPolicy)
	if err != nil {
		return failure(fmt.Errorf("fleet policy put: %w", err))
	}
	front, err := o.front(c.Context())
	if err != nil {
		return failure(fmt.Errorf("fleet policy put: %w", err))
	}
	body, err := json.Marshal(map[string]string{"name": name, "text": string(text)})
	if err != nil {
		return failure(err)
	}
	var number uint64
	var out strings.Builder
	if err := front.Stream(c.Context(), control.StreamPath+"fleet/policy", strings.NewReader(string(body)), &out); err != nil {
		return failure(fmt.Errorf("fleet policy put: %w", err))
	}
	if err := json.Unmarshal([]byte(out.String()), &number); err != nil {
		return failure(fmt.Errorf("fleet policy put: %w", err))
	}
	all, err := o.settled(c.Context(), number)
	if err != nil {
		return failure(err)
	}
	return o.show(c.OutOrStdout(), all)
}

// settled waits until each linked worker has a policy, or has refused it.
func (o *fleetOptions) settled(ctx context.Context, number uint64) (all []fleet.Info, err error) {
	over := time.NewTimer(holdWait)
	defer over.Stop()
	look := time.NewTicker(holdLook)
	defer look.Stop()
	for {
		if all, err = o.info(ctx); err != nil {
			return nil, err
		}
		waits := false
		for _, i := range all {
			for _, w := range i.Workers {
				waits = waits || w.Number < number && w.Refused == ""
			}
		}
		if !waits {
			return all, nil
		}
		select {
		case <-look.C:
		case <-over.C:
			return all, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (o *fleetOptions) get(c *cobra.Command) error {
	front, err := o.front(c.Context())
	if err != nil {
		return failure(fmt.Errorf("fleet policy get: %w", err))
	}
	var text strings.Builder
	if err := front.Stream(c.Context(), control.StreamPath+"fleet/policy/text", nil, &text); err != nil {
		return failure(fmt.Errorf("fleet policy get: %w", err))
	}
	if text.Len() == 0 {
		return failure(errors.New("fleet policy get: no policy was given to this fleet: each machine has the one of its --policy"))
	}
	_, err = io.WriteString(c.OutOrStdout(), text.String())
	return failure(err)
}

func (o *fleetOptions) policies(c *cobra.Command) error {
	all, err := o.info(c.Context())
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return failure(fmt.Errorf("fleet policy status: %s", noFront))
	}
	return o.show(c.OutOrStdout(), all)
}

// nodePolicy says which policy a machine of a fleet has.
type nodePolicy struct {
	Node   string `json:"node"`   // "front", or the name of a worker
	Number uint64 `json:"number"` // number of the policy; 0 if it comes from the node's own file
	SHA256 string `json:"sha256"`
	State  string `json:"state"`         // holds, other or refused
	Why    string `json:"why,omitempty"` // reason, if the state is refused
}

// nodesOf returns the machines that a front knows, with their policies; same reports
// whether all workers have the policy of the front.
func nodesOf(i fleet.Info) (all []nodePolicy, same bool) {
	all, same = []nodePolicy{{Node: "front", Number: i.Number, SHA256: i.PolicyDigest, State: "holds"}}, true
	for _, w := range i.Workers {
		one := nodePolicy{Node: w.Name, Number: w.Number, SHA256: w.PolicyDigest, State: "holds"}
		if w.PolicyDigest != i.PolicyDigest || w.Number != i.Number {
			one.State, same = "other", false
			if w.Refused != "" {
				one.State, one.Why = "refused", w.Refused
			}
		}
		all = append(all, one)
	}
	return all, same
}

// show prints which policies the machines of a fleet have.
func (o *fleetOptions) show(out io.Writer, infos []fleet.Info) error {
	all, same := []nodePolicy{}, true
	for _, i := range infos {
		some, ok := nodesOf(i)
		all, same = append(all, some...), same && ok
	}
	var err error
	if o.asJSON {
		err = printJSON(out, all)
	} else {
		err = printPolicies(out, all)
	}
	switch {
	case err != nil:
		return failure(err)
	case !same:
		return failure(errors.New("fleet policy: not every worker has the policy of the front; the lines above say which"))
	}
	return nil
}

func printPolicies(out io.Writer, all []nodePolicy) error {
	w := newTable(out)
	fmt.Fprintln(w, "NODE\tNUMBER\tPOLICY\tSTATE")
	for _, one := range all {
		number := "of its file"
		if one.Number > 0 {
			number = fmt.Sprint(one.Number)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", one.Node, number, shortHash(one.SHA256), one.State)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, one := range all {
		if one.Why == "" {
			continue
		}
		if _, err := fmt.Fprintf(out, "%s refuses it:\n", one.Node); err != nil {
			return err
		}
		for line := range strings.Lines(one.Why) {
			if _, err := fmt.Fprintf(out, "  %s\n", policies.Clip(strings.TrimRight(line, "\n"), 300)); err != nil {
				return err
			}
		}
	}
	return nil
}
