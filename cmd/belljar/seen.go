package main

import (
	"context"
	"fmt"
	"net/http"

	"belljar.dev/internal/config"
)

// seenBy is a server of this user and what it said.
type seenBy[T any] struct {
	client *controlClient
	said   T
}

// askEach asks every server of a state directory for what it has at a path. One that
// has gone is passed over.
func askEach[T any](ctx context.Context, state, path string) (found []seenBy[T], err error) {
	clients, err := servers(state)
	if err != nil {
		return nil, err
	}
	for _, client := range clients {
		one := seenBy[T]{client: client}
		switch err := client.ask(ctx, http.MethodGet, path, nil, &one.said); {
		case gone(err):
		case err != nil:
			return nil, err
		default:
			found = append(found, one)
		}
	}
	return found, nil
}

// askServers is askEach for what waits for a person, and for what is over as well if
// all is set. Servers with one state directory see the same. The error, which names
// the command that asks, may be that no server runs.
func askServers[T any](ctx context.Context, command, stateFlag, path string, all bool) (found []seenBy[T], err error) {
	state, err := config.FindState(stateFlag)
	if err != nil {
		return nil, failure(err)
	}
	if all {
		path += "?all=1"
	}
	if found, err = askEach[T](ctx, state, path); err != nil {
		return nil, failure(err)
	}
	if len(found) == 0 {
		return nil, failure(fmt.Errorf("%s: no server of this user runs here; `belljar serve` takes answers while it does, and --state names its state directory", command))
	}
	return found, nil
}
