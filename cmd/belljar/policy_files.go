package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/policies"
)

// eachPolicy reads each file, prints the faults of the policies that have some, and calls
// use with the others.
func eachPolicy(c *cobra.Command, names []string, use func(name string, p *policies.Policy)) error {
	return policiesFor(c, names, "", use)
}

// policiesFor is eachPolicy with the policies as they apply to a workspace; if workspace is
// empty, to the current directory.
func policiesFor(c *cobra.Command, names []string, workspace string, use func(name string, p *policies.Policy)) error {
	faulty := 0
	for _, name := range names {
		p, err := config.CheckPolicy(name, workspace)
		if err != nil {
			faulty++
			fmt.Fprintln(c.ErrOrStderr(), err)
			tellHeldBack(c.Context(), c.ErrOrStderr(), flagText(c, stateName), name)
			continue
		}
		use(name, p)
	}
	if faulty > 0 {
		return failure(fmt.Errorf("read policies: %d of %d cannot be used; the lines above say why", faulty, len(names)))
	}
	return nil
}

// by returns the name of a rule and its place in the file.
func by(rule string, at policies.Source) string {
	if at.Line == 0 {
		return rule
	}
	return fmt.Sprintf("%s (%s:%d)", rule, at.File, at.Line)
}

// ofLayer returns a text that names a layer below the system's.
func ofLayer(layer string) string {
	if layer == "" || layer == policies.LayerSystem {
		return ""
	}
	return " of the " + layer
}
