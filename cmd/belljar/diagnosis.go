package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// diagnosis is what doctor prints. Programs rely on its JSON: keys may be added, but no key
// is removed or changes its meaning.
type diagnosis struct {
	OK       bool               `json:"ok"`
	Kernel   string             `json:"kernel"`
	Checks   []sandbox.Check    `json:"checks"`
	Policy   string             `json:"policy"`
	Exposure []sandbox.Exposure `json:"exposure"` // empty if no box can run
}

func examine(workspace, policyName string, policy *policies.Policy) diagnosis {
	host := sandbox.Examine(workspace)
	d := diagnosis{OK: host.OK(), Kernel: host.Kernel, Checks: host.Checks, Policy: policyName, Exposure: []sandbox.Exposure{}}
	if !d.OK {
		return d
	}
	for _, name := range policy.Profiles() {
		if p, ok := policy.Profile(name); ok {
			d.Exposure = append(d.Exposure, sandbox.Expose(p, host))
		}
	}
	return d
}

// doctor prints what was found, and returns an error if a box cannot run.
func doctor(out io.Writer, d diagnosis, asJSON bool) error {
	if asJSON {
		if err := printJSON(out, d); err != nil {
			return err
		}
	} else if err := table(out, d); err != nil {
		return failure(fmt.Errorf("print the report: %w", err))
	}
	if !d.OK {
		return failure(errors.New("no box can run on this host: see what is MISSING and how to fix it"))
	}
	return nil
}

// table prints the checks for people, with what to do under each check that failed, and
// then the profiles.
func table(out io.Writer, d diagnosis) error {
	w := newTable(out)
	for _, k := range d.Checks {
		fmt.Fprintf(w, "%s\t%s\t%s\n", k.Word(), k.Name, k.Detail)
		for lost := range strings.SplitSeq(k.Degraded, "; ") {
			if lost != "" {
				fmt.Fprintf(w, "\t\t  so: %s\n", lost)
			}
		}
		if k.Mend != "" && k.Word() != "ok" {
			fmt.Fprintf(w, "\t\t  fix: %s\n", k.Mend)
		}
	}
	if err := w.Flush(); err != nil || !d.OK {
		return err
	}
	fmt.Fprintf(out, "\nBoxes can run on this host.\n\nExposure of the profiles of the policy (%s), 0 least to 100 most:\n", d.Policy)
	w = newTable(out)
	for _, e := range d.Exposure {
		fmt.Fprintf(w, "%3d\t%s\n", e.Score, e.Profile)
		for _, p := range e.Points {
			fmt.Fprintf(w, "\t  %+d\t%s\n", p.Score, p.Fact)
		}
	}
	return w.Flush()
}
