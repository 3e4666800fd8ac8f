package main

import (
	"context"
	"fmt"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
)

// askServers asks each server of this user for the questions that wait for a person, and
// also for those that have ended if all is set. Servers with one state directory return the
// same. The error, which names the command, may be that no server runs.
func askServers[T any](ctx context.Context, command, stateFlag, path string, all bool) (found []control.From[T], err error) {
	state, err := config.KnownState(stateFlag)
	if err != nil {
		return nil, failure(err)
	}
	if all {
		path += "?all=1"
	}
	if found, err = control.Each[T](ctx, state, path); err != nil {
		return nil, failure(err)
	}
	if len(found) == 0 {
		return nil, failure(fmt.Errorf("%s: no server of this user runs here; `belljar serve` takes answers while it does, and --state names its state directory", command))
	}
	return found, nil
}
