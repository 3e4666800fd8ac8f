package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/internal/fleet"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// sightings are the checkpoints of the log of a directory that the logs of others have.
func sightings(ctx context.Context, dir string, witnesses []string) (all []audit.Sighting, err error) {
	if len(witnesses) == 0 {
		return nil, nil
	}
	worker, err := audit.NodeOf(ctx, dir)
	if err != nil {
		return nil, err
	}
	if worker == "" {
		return nil, fmt.Errorf("the newest record of %s names no worker, so nobody has checkpoints of it", dir)
	}
	for _, other := range witnesses {
		by, err := audit.NodeOf(ctx, other)
		if err != nil {
			return nil, err
		}
		if by == "" {
			by = filepath.Clean(other)
		}
		err = audit.Witnessed(ctx, other, worker, func(w audit.Witness) error {
			all = append(all, audit.Sighting{By: by, Signed: w.Signed})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("none of these logs has a checkpoint of worker %s", worker)
	}
	return all, nil
}

// fleetWait is how long all workers of a fleet have to read their logs.
const fleetWait = 15 * time.Minute

// workerLog is what is known of the log of one worker.
type workerLog struct {
	fleet.Audited
	found control.AuditReport
}

// wrong is why a log cannot be relied on; empty if it can.
func (w *workerLog) wrong() string {
	switch {
	case w.found.Fault != "":
		return w.found.Fault
	case w.Error != "":
		return w.Error
	}
	return ""
}

// verifyFleet has all workers of the fronts of a state directory verify their logs.
func verifyFleet(ctx context.Context, out io.Writer, state string, asJSON bool) error {
	dir, err := config.KnownState(state)
	if err != nil {
		return failure(err)
	}
	fronts, err := control.Clients(dir)
	if err == nil && len(fronts) == 0 {
		return failure(fmt.Errorf("verify audit logs: %s", noFront))
	}
	if err != nil {
		return failure(fmt.Errorf("verify audit logs: %w", err))
	}
	all, faults := []workerLog{}, 0
	for _, one := range fronts {
		var found []fleet.Audited
		if err := one.Patient(fleetWait).Ask(ctx, http.MethodPost, "/fleet/audit", nil, &found); err != nil {
			return failure(fmt.Errorf("verify audit logs: %w", err))
		}
		for _, a := range found {
			w := workerLog{Audited: a}
			if a.Report != nil {
				if err := json.Unmarshal(a.Report, &w.found); err != nil {
					return failure(fmt.Errorf("verify audit logs: the report of worker %s: %w", a.Worker, err))
				}
			}
			if w.wrong() != "" {
				faults++
			}
			all = append(all, w)
		}
	}
	if asJSON {
		err = printJSON(out, all)
	} else {
		err = printLogs(out, all)
	}
	if err == nil && faults > 0 {
		return &statusError{code: exitFailed}
	}
	return failure(err)
}

// printLogs prints what is known of the logs of a fleet.
func printLogs(out io.Writer, all []workerLog) error {
	for i := range all {
		w := &all[i]
		line := fmt.Sprintf("ok       %s: records %d to %d, signed up to %d", w.Worker, w.found.First, w.found.Last, w.found.Signed)
		switch why := w.wrong(); {
		case why != "":
			line = fmt.Sprintf("WRONG    %s: %s", w.Worker, policies.Clip(why, 1000))
		case w.found.Witnessed > 0:
			line += fmt.Sprintf(", up to %d as the log of %s has it", w.found.Witnessed, strings.Join(w.found.Witnesses, ", "))
		default:
			line += "; no other worker has a checkpoint of it"
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
		for _, n := range w.found.Notes {
			if _, err := fmt.Fprintf(out, "         note: %s\n", policies.Clip(n, 1000)); err != nil {
				return err
			}
		}
	}
	return nil
}
