package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/fleet"
	"belljar.dev/internal/fleet/pki"
	"belljar.dev/policies"
)

// fleetOptions contains the flags of the fleet commands.
type fleetOptions struct {
	state  string
	asJSON bool
	fronts []string
	worker bool
	days   int
}

func fleetCommand() *cobra.Command {
	var o fleetOptions
	c := &cobra.Command{
		Use:   "fleet",
		Short: "look after many machines behind one address",
		Long: `fleet makes the certificates of a fleet, and shows what the front of this machine
knows of its workers. docs/fleet.md says how to set up a fleet.

  belljar fleet init pki
  belljar fleet cert pki front --front front.example
  belljar fleet cert pki w1 --worker
  belljar fleet policy put policy.yaml
  belljar fleet status
  belljar fleet doctor
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	initial := &cobra.Command{
		Use: "init DIR", Short: "make the authority of a fleet in a directory",
		RunE: func(c *cobra.Command, args []string) error { return o.init(c, args[0]) },
	}
	cert := &cobra.Command{
		Use: "cert DIR NAME", Short: "make the certificate of a front or of a worker",
		RunE: func(c *cobra.Command, args []string) error { return o.cert(c, args[0], args[1]) },
	}
	cert.Flags().StringSliceVar(&o.fronts, "front", nil, "make it for a front that workers reach at this `host`, a name or an address; separate several by commas")
	cert.Flags().BoolVar(&o.worker, "worker", false, "make it for the worker of that name; with NAME \"any\" it is valid for every worker")
	cert.Flags().IntVar(&o.days, "days", 365, "`days` for which the certificate is valid")
	status := &cobra.Command{Use: "status", Short: "list the workers and places that the front of this machine knows", RunE: func(c *cobra.Command, _ []string) error { return o.status(c) }}
	doctor := &cobra.Command{Use: "doctor", Short: "say what is wrong with a fleet, and how to fix it", RunE: func(c *cobra.Command, _ []string) error { return o.doctor(c) }}
	forget := &cobra.Command{
		Use: "forget PLACE", Short: "make a place anew if its worker will not come back",
		Long: `forget takes back the claim of a worker that will not come back. The next request
for the place has another worker make it, without its files.
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error { return o.forget(c, args[0]) },
	}
	for _, one := range []*cobra.Command{status, doctor, forget} {
		one.Flags().StringVar(&o.state, stateName, "", "state `directory` of the front (default: $XDG_STATE_HOME/belljar)")
	}
	status.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	c.AddCommand(initial, cert, status, doctor, forget, o.policyCommand())
	return c
}

func (o *fleetOptions) init(c *cobra.Command, dir string) error {
	if err := pki.Init(dir, time.Now()); err != nil {
		return failure(fmt.Errorf("fleet init: %w", err))
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s/%s is the authority of the fleet: every front and worker gets a copy as --link-ca.\nIts key is %s/ca-key.pem: anybody with that key can be any machine of the fleet. Keep it off the fleet.\n", dir, pki.CAFile, dir)
	return failure(err)
}

func (o *fleetOptions) cert(c *cobra.Command, dir, name string) error {
	if !fleet.IsWorkerName(name) {
		return usage("fleet cert: %q cannot be a name; want at most 63 lower-case letters, digits and hyphens", name)
	}
	if o.worker == (len(o.fronts) > 0) {
		return usage("fleet cert: name what it is for: --worker, or --front HOST")
	}
	if o.days < 1 || o.days > 3650 {
		return usage("fleet cert: --days: want a number from 1 to 3650")
	}
	n := pki.Node{Name: name, Hosts: o.fronts, Life: time.Duration(o.days) * 24 * time.Hour}
	if o.worker {
		n.DNS = fleet.WorkerDNS(name)
		if name == "any" {
			n.DNS = fleet.WorkerDNS("*")
		}
	}
	cert, key, err := pki.Issue(dir, n, time.Now())
	if err != nil {
		return failure(fmt.Errorf("fleet cert: %w", err))
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "--link-cert %s --link-key %s --link-ca %s/%s\n", cert, key, dir, pki.CAFile)
	return failure(err)
}

func (o *fleetOptions) status(c *cobra.Command) error {
	all, err := o.info(c.Context())
	if err != nil {
		return err
	}
	if o.asJSON {
		return printJSON(c.OutOrStdout(), all)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(c.OutOrStdout(), noFront)
		return failure(err)
	}
	for _, one := range all {
		if err := printFleet(c.OutOrStdout(), one); err != nil {
			return failure(err)
		}
	}
	return nil
}

func printFleet(out io.Writer, i fleet.Info) error {
	w := newTable(out)
	fmt.Fprintln(w, "WORKER\tADDRESS\tVERSION\tLINKED FOR\tPLACES\tRUNNING\tPOLICY\tSTATE")
	for _, one := range i.Workers {
		state := "takes places"
		switch {
		case one.Drains:
			state = "drains"
		case one.Late || one.Behind:
			state = "takes no new places"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", one.Name, one.Address, policies.Clip(one.Version, 40), policies.Spoken(time.Since(one.Since)), one.Places, one.Running, shortHash(one.PolicyDigest), state)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d workers, %d places, %d places that no linked worker has, %d places that nobody serves\n", len(i.Workers), len(i.Places), len(i.Away), len(i.Frozen)+len(i.Claimed))
	return err
}

// soon is how long before its end a certificate is reported.
const soon = 14 * 24 * time.Hour

func (o *fleetOptions) doctor(c *cobra.Command) error {
	all, err := o.info(c.Context())
	if err != nil {
		return err
	}
	var wrong []string
	if len(all) == 0 {
		wrong = append(wrong, noFront)
	}
	for _, i := range all {
		wrong = append(wrong, faultsOf(i, time.Now())...)
	}
	for _, line := range wrong {
		if _, err := fmt.Fprintln(c.OutOrStdout(), "WRONG    "+line); err != nil {
			return failure(err)
		}
	}
	if len(wrong) > 0 {
		return failure(errors.New("fleet doctor: see what is WRONG and how to fix it"))
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), "ok       every worker is linked, and every place is on one worker")
	return failure(err)
}

// faultsOf returns the faults of a fleet.
func faultsOf(i fleet.Info, now time.Time) (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if len(i.Workers) == 0 {
		say("no worker is linked: start `belljar work` with --front https://HOST:PORT, the address of --link")
	}
	if i.Fault != "" {
		say("%s", policies.Clip(i.Fault, 500))
	}
	if i.Refused != "" {
		say("new places are refused: %s", i.Refused)
	}
	if i.Expires.Before(now.Add(soon)) {
		say("the certificate of this front expires at %s: `belljar fleet cert` makes another one", i.Expires.Format(time.DateTime))
	}
	for _, w := range i.Workers {
		if w.Late {
			say("worker %s gets no new places: its clock is off by %s; synchronize it with a time server", w.Name, w.Skew.Round(time.Second))
		}
		switch {
		case w.Refused != "" && w.Number != i.Number:
			say("worker %s refuses policy %d of the fleet: `belljar fleet policy status` says why; correct that and put it again", w.Name, i.Number)
		case w.Number > i.Number:
			say("worker %s has policy %d of the fleet, which this front does not have: put the right one again with `belljar fleet policy put`", w.Name, w.Number)
		case w.PolicyDigest != "" && i.PolicyDigest != "" && w.PolicyDigest != i.PolicyDigest:
			say("worker %s has another policy (%s) than this front (%s): give all the same one with `belljar fleet policy put`, and `belljar policy check` on its machine says why it keeps an older one", w.Name, shortHash(w.PolicyDigest), shortHash(i.PolicyDigest))
		}
		if w.Expires.Before(now.Add(soon)) {
			say("the certificate of worker %s expires at %s: `belljar fleet cert` makes another one", w.Name, w.Expires.Format(time.DateTime))
		}
	}
	for _, name := range i.Static {
		if !slices.ContainsFunc(i.Workers, func(w fleet.WorkerInfo) bool { return w.Name == name }) {
			say("worker %s of --workers is not linked: new places whose names lead to it wait", name)
		}
	}
	for _, place := range slices.Sorted(maps.Keys(i.Frozen)) {
		say("place %s is on %s, and none of them serves it: remove its directory (places/%s) on all but one", policies.Clip(place, 128), strings.Join(i.Frozen[place], " and "), policies.Clip(place, 128))
	}
	for _, place := range slices.Sorted(maps.Keys(i.Claimed)) {
		say("place %s is on %s, but belongs to %s, and neither serves it: start the worker that has the directory under the name %s; leave the directory", policies.Clip(place, 128), i.Places[place], i.Claimed[place], i.Claimed[place])
	}
	away := make(map[string]int)
	for _, worker := range i.Away {
		away[worker]++
	}
	for _, worker := range slices.Sorted(maps.Keys(away)) {
		say("%d places are on worker %s, which is not linked, or does not have them: start it; if it will not come back, `belljar fleet forget PLACE` has another worker make a place anew, without its files", away[worker], worker)
	}
	return all
}

func (o *fleetOptions) forget(c *cobra.Command, place string) error {
	all, err := fronts(c.Context(), o.state)
	for _, one := range all { // none after an error
		var said string
		err = errors.Join(err, one.Ask(c.Context(), http.MethodPost, "/fleet/forget?place="+url.QueryEscape(place), nil, &said))
	}
	if err != nil {
		return failure(fmt.Errorf("fleet forget: %w", err))
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s no longer belongs to a worker; the next request for it has a worker make it\n", place)
	return failure(err)
}
