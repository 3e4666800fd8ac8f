package main

import (
	"context"
	"fmt"
	"net/http"
)

// seenBy is a server of this user and what it said.
type seenBy[T any] struct {
	client *controlClient
	said   T
}

// askServers asks every server of a state directory for what waits for a person
// at a path, and for what is over as well if all is set. Servers with one state
// directory see the same. The error names the command that asks.
func askServers[T any](ctx context.Context, command, stateFlag, path string, all bool) (found []seenBy[T], err error) {
	state, err := findState(stateFlag)
	if err != nil {
		return nil, failure(err)
	}
	clients, err := servers(state)
	if err != nil {
		return nil, failure(err)
	}
	if all {
		path += "?all=1"
	}
	for _, client := range clients {
		one := seenBy[T]{client: client}
		switch err := client.ask(ctx, http.MethodGet, path, nil, &one.said); {
		case gone(err):
		case err != nil:
			return nil, failure(err)
		default:
			found = append(found, one)
		}
	}
	if len(found) == 0 {
		return nil, failure(fmt.Errorf("%s: no server of this user runs here; `belljar serve` takes answers while it does, and --state names its state directory", command))
	}
	return found, nil
}
