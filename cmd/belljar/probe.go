package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/server"
	"belljar.dev/policies"
	"belljar.dev/sandbox/escape"
	"belljar.dev/sandbox/limit"
)

// probing contains the flags of `doctor --probe`.
type probing struct {
	on      bool
	profile string
}

func (p *probing) flags(c *cobra.Command) {
	c.Flags().BoolVar(&p.on, "probe", false, "try to get out of a box of this host and policy")
	c.Flags().StringVar(&p.profile, "profile", "", "with --probe: `name` of a profile of the policy (default: the profile that the policy gives such a command)")
}

// finding is a probe without the required outcome.
type finding struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Category escape.Category `json:"category"`
	Detail   string          `json:"detail"`
	Means    string          `json:"means"`
	Tried    bool            `json:"tried"` // if false, nothing is known, which is not a reason for trust
	Works    bool            `json:"works"` // whether the probe tries what must work in a box, rather than a way out
}

// tally counts the probes of a category.
type tally struct {
	Category escape.Category `json:"category"`
	Held     int             `json:"held"`
	Of       int             `json:"of"`
}

// probed is what `doctor --probe` prints. Programs rely on its JSON: keys may be added, but
// no key is removed or changes its meaning.
type probed struct {
	OK         bool      `json:"ok"`
	Policy     string    `json:"policy"`
	Profile    string    `json:"profile"`
	Tenants    []string  `json:"tenants"`   // the two tenants whose boxes are tried
	Workspace  string    `json:"workspace"` // empty if a workspace was made for the probes
	Held       int       `json:"held"`
	Of         int       `json:"of"`
	Categories []tally   `json:"categories"`
	Findings   []finding `json:"findings"`
}

// run tries all probes in boxes of this deployment. Without --workspace it makes a
// workspace: some probes try to plant a hook, and if one succeeds, the hook should not be in
// a workspace of the user.
func (p *probing) run(c *cobra.Command, set *setup, asJSON bool) (err error) {
	ctx, cancel := signal.NotifyContext(c.Context(), stop...)
	defer cancel()
	own := *set
	if !c.Flags().Changed("workspace") {
		if own.Workspace, err = os.MkdirTemp("", "belljar-workspace-"); err != nil {
			return failure(fmt.Errorf("make a workspace for the probes: %w", err))
		}
		defer os.RemoveAll(own.Workspace)
		if err := escape.NewWorkspace(own.Workspace); err != nil {
			return failure(fmt.Errorf("make a workspace for the probes: %w", err))
		}
	}
	srv, err := own.open(ctx, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer srv.Close()
	report := probed{Policy: srv.PolicyName, Tenants: []string{}, Categories: []tally{}, Findings: []finding{}}
	if c.Flags().Changed("workspace") {
		report.Workspace = srv.Workspace
	}
	if err := report.fill(ctx, srv, p.profile); err != nil {
		return failure(err)
	}
	if err := report.print(c.OutOrStdout(), asJSON); err != nil {
		return failure(fmt.Errorf("print the report: %w", err))
	}
	if !report.OK {
		return failure(fmt.Errorf("%d of %d probes were not held: see what each means", report.Of-report.Held, report.Of))
	}
	return nil
}

// fill tries the probes in boxes for two tenants, with what a profile grants.
func (r *probed) fill(ctx context.Context, srv *server.Server, profile string) error {
	grants, err := r.choose(srv.Policy, profile)
	if err != nil {
		return err
	}
	r.Profile = grants[0].Profile()
	suite, err := escape.Open(ctx, escape.Config{Supervisor: srv.Sandbox(), Workspace: srv.Workspace, Attacker: grants[0], Neighbour: grants[1]})
	if err != nil {
		return explain(err)
	}
	for _, p := range suite.Probes() {
		o := suite.Inside(ctx, p)
		if ctx.Err() != nil {
			err = fmt.Errorf("stopped at probe %s: %w", p.ID, context.Cause(ctx))
			break
		}
		r.add(p, o)
	}
	return errors.Join(err, suite.Close())
}

// choose chooses two tenants, and returns what the policy grants each of them for a command.
// A policy that names tenants serves only them and the person at this machine, so these are
// the candidates, in this order. Any other policy serves every tenant.
func (r *probed) choose(p *policies.Policy, profile string) (grants [2]policies.Grant, err error) {
	if profile != "" && !slices.Contains(p.Profiles(), profile) {
		return grants, fmt.Errorf("--profile: the policy has no profile %q; it has %s", profile, strings.Join(p.Profiles(), ", "))
	}
	tenants := []string{"probe", "probe-neighbour"}
	if named := p.Tenants(); len(named) > 0 {
		tenants = slices.Clone(named)
		if !slices.Contains(named, policies.LocalTenant) {
			tenants = append(tenants, policies.LocalTenant)
		}
	}
	refused, more := "", 0 // why the first is refused, and how many others are
	for _, tenant := range tenants {
		d := p.Decide(policies.Facts{Tenant: tenant, Session: "probe", Tool: "Bash", Profile: profile, Command: "true", Now: time.Now()})
		if d.Verdict != policies.Allow {
			if refused == "" {
				refused = fmt.Sprintf("for tenant %s it says %s by rule %s: %s", tenant, d.Verdict, d.Rule, d.Reason)
			} else {
				more++
			}
			continue
		}
		grants[len(r.Tenants)] = d.Grant
		if r.Tenants = append(r.Tenants, tenant); len(r.Tenants) == len(grants) {
			return grants, nil
		}
	}
	switch {
	case refused == "": // the only tenant is the person at this machine
		refused = "it has no other tenant than " + strings.Join(r.Tenants, "")
	case more > 0:
		refused += fmt.Sprintf(" It also refuses %d more.", more)
	}
	return grants, fmt.Errorf("open boxes for the probes: the policy must allow two tenants the tool Bash with the command `true`; %s", refused)
}

// explain adds what to do to the error of a box that cannot be opened.
func explain(err error) error {
	if _, ok := errors.AsType[*limit.Refusal](err); ok {
		return fmt.Errorf("%w; `belljar doctor` says what this host lacks and how to fix it", err)
	}
	return err
}

// add counts one probe.
func (r *probed) add(p escape.Probe, o escape.Outcome) {
	if n := len(r.Categories); n == 0 || r.Categories[n-1].Category != p.Category {
		r.Categories = append(r.Categories, tally{Category: p.Category})
	}
	t := &r.Categories[len(r.Categories)-1]
	t.Of++
	r.Of++
	if p.Held(o) {
		t.Held++
		r.Held++
	} else {
		f := finding{ID: p.ID, Name: p.Name, Category: p.Category, Detail: o.Detail, Means: p.Category.Means(), Tried: o.Err == nil, Works: p.Works}
		switch {
		case o.Err != nil && p.Works:
			f.Detail, f.Means = o.Err.Error(), "it is not known whether what programs need works in the box"
		case o.Err != nil:
			f.Detail, f.Means = o.Err.Error(), "it is not known whether "+f.Means
		case p.Works:
			f.Means = "what programs need does not work in the box"
		}
		r.Findings = append(r.Findings, f)
	}
	r.OK = r.Held == r.Of
}

// print writes the report.
func (r *probed) print(out io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(r)
	}
	w := newTable(out)
	for _, t := range r.Categories {
		fmt.Fprintf(w, "%s\t%d/%d held\n", t.Category, t.Held, t.Of)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, f := range r.Findings {
		word := "THROUGH"
		switch {
		case !f.Tried:
			word = "UNTRIED"
		case f.Works:
			word = "BROKEN"
		}
		fmt.Fprintf(out, "\n%s %s %s\n  found: %s\n  so: %s\n", word, f.ID, f.Name, f.Detail, f.Means)
	}
	_, err := fmt.Fprintf(out, "\n%d of %d probes held, in profile %s of the policy (%s).\n", r.Held, r.Of, r.Profile, r.Policy)
	return err
}
