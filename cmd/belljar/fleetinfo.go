package main

import (
	"context"
	"errors"
	"fmt"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/internal/fleet"
	"belljar.dev/policies"
)

const noFront = "No front of yours runs here; name its state directory with --state."

// askFronts asks the fronts of a state directory what they know. A front that was killed
// does not count, although its socket may still exist.
func askFronts(ctx context.Context, state string) ([]control.From[[]fleet.Info], error) {
	dir, err := config.KnownState(state)
	if err != nil {
		return nil, err
	}
	found, err := control.Each[[]fleet.Info](ctx, dir, "/fleet")
	if err != nil {
		err = fmt.Errorf("a server with the state directory %s is not a front, or does not answer: %w; name that of a front with --state", dir, err)
	}
	return found, err
}

// fronts returns the clients of the fronts of a state directory. It is an error if none
// runs.
func fronts(ctx context.Context, state string) ([]*control.Client, error) {
	found, err := askFronts(ctx, state)
	if err == nil && len(found) == 0 {
		err = errors.New(noFront) //nolint:staticcheck // a whole sentence for a person, which `fleet status` prints too
	}
	var all []*control.Client
	for _, at := range found {
		all = append(all, at.Client)
	}
	return all, err
}

// info returns what the fronts of a state directory know.
func (o *fleetOptions) info(ctx context.Context) ([]fleet.Info, error) {
	found, err := askFronts(ctx, o.state)
	all := []fleet.Info{}
	for _, at := range found {
		all = append(all, at.Said...)
	}
	return all, failure(err)
}

// shortHash returns the beginning of the digest of a policy, for people.
func shortHash(digest string) string {
	if digest == "" {
		return "-"
	}
	return policies.Clip(digest[:min(len(digest), 12)], 12)
}
