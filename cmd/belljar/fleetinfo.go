package main

import (
	"context"

	"belljar.dev/internal/fleet"
	"belljar.dev/policies"
)

const noFront = "No front of yours runs here; name its state directory with --state."

// info returns what the fronts of a state directory know.
func (o *fleetOptions) info(ctx context.Context) ([]fleet.Info, error) {
	found, err := lists(ctx, o.state, "/fleet", func(fleet.Info) bool { return true })
	return flat(found), err
}

// shortHash returns the beginning of the digest of a policy, for people.
func shortHash(digest string) string {
	if digest == "" {
		return "-"
	}
	return policies.Clip(digest[:min(len(digest), 12)], 12)
}
