package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/internal/hostexec"
	"belljar.dev/internal/store"
	"belljar.dev/mcp/upstream/pin"
)

// foreign returns why an agent may have written a file, or an empty text if no box can have
// written it. The directories in which agents have worked are not all known, so only files
// in the directory of the user's configuration count as the user's own, and, with known set,
// the file of a client that belljar knows.
func (u *upstreams) foreign(ctx context.Context, file string, known bool) string {
	boxes, err := u.boxes(ctx)
	if err == nil {
		err = boxes.Check(file)
	}
	if err != nil {
		return err.Error()
	}
	own, err := os.UserConfigDir()
	if !known && (err != nil || !config.Inside(config.RealPath(file), config.RealPath(own))) {
		return "it is not in a directory of your configuration"
	}
	return ""
}

// boxes returns the directories that boxes can write, as far as they are known: those of
// running servers, of pins, and of the user's policy.
func (u *upstreams) boxes(ctx context.Context) (none hostexec.Boxes, err error) {
	state, err := config.FindState(u.state)
	if err != nil {
		return none, err
	}
	var places []string
	found, err := control.Each[[]control.Upstreams](ctx, state, "/upstreams")
	if err != nil {
		return none, err
	}
	for _, at := range flat(found) {
		places = append(places, at.Place)
	}
	tenants, err := control.Each[[]control.Tenant](ctx, state, "/tenants")
	if err != nil {
		return none, err
	}
	for _, t := range flat(tenants) {
		for _, p := range t.Places {
			places = append(places, p.Workspace)
		}
	}
	kept := store.New(state)
	if !kept.Made() { // it has no pins, and to read them must not make a database
		kept = store.New("")
	}
	pins, err := pin.NewBook(store.Config{Store: kept}).All(ctx)
	if err = errors.Join(err, kept.Close()); err != nil {
		return none, err
	}
	for _, s := range pins {
		if s.Place != "" {
			places = append(places, s.Place)
		}
	}
	_, policy, err := config.FindPolicy("", "")
	if err != nil {
		return none, fmt.Errorf("what boxes can write is not known: %w", err)
	}
	for _, dir := range policy.Projects() {
		places = append(places, filepath.Clean(dir))
	}
	return config.Boxes(policy, places, state), nil
}
