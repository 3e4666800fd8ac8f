package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/fleet"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// sightings returns the checkpoints of the log of a directory that other logs contain.
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

// fleetWait is how long all workers of a fleet may take to read their logs.
const fleetWait = 15 * time.Minute

// Verdicts about the audit log of a worker, and about what it has kept of other logs.
const (
	logOK      = "ok"
	logWrong   = "WRONG"   // the log contradicts itself, or what other logs have kept of it
	logUnknown = "UNKNOWN" // the state of the log could not be found out
)

// workerLog is what is known about the log of one worker.
type workerLog struct {
	fleet.Audited

	Verdict string `json:"verdict"`
	Why     string `json:"why,omitempty"` // reason of any verdict except ok
	found   control.AuditReport
}

// judged returns what a front found out about the log of a worker, with the verdict.
func judged(a fleet.Audited) workerLog {
	w := workerLog{Audited: a, Verdict: logOK}
	if a.Report != nil {
		if err := json.Unmarshal(a.Report, &w.found); err != nil { // a worker may send any report
			w.found = control.AuditReport{Unread: "its report is not valid"}
		}
	}
	switch {
	case w.found.Fault != "":
		w.Verdict, w.Why = logWrong, w.found.Fault
	case w.found.Unread != "":
		w.Verdict, w.Why = logUnknown, w.found.Unread
	case a.Report == nil:
		w.Verdict, w.Why = logUnknown, cmp.Or(a.Error, "its log was not read")
	}
	return w
}

// verifyFleet makes all workers of the fronts of a state directory verify their logs.
func verifyFleet(ctx context.Context, out io.Writer, state string, asJSON bool) error {
	asked, err := fronts(ctx, state)
	if err != nil {
		return failure(fmt.Errorf("verify audit logs: %w", err))
	}
	all := []workerLog{}
	for _, one := range asked {
		var found []fleet.Audited
		if err := one.Patient(fleetWait).Ask(ctx, http.MethodPost, "/fleet/audit", nil, &found); err != nil {
			return failure(fmt.Errorf("verify audit logs: %w", err))
		}
		for _, a := range found {
			all = append(all, judged(a))
		}
	}
	if asJSON {
		err = printJSON(out, all)
	} else {
		err = printLogs(out, all)
	}
	if err != nil {
		return failure(err)
	}
	switch status := statusOfLogs(all); status {
	case exitOK:
		return nil
	case exitFailed:
		return failure(errors.New("verify audit logs: a log is WRONG; standard output says which, and why"))
	default:
		return &statusError{code: status}
	}
}

// statusOfLogs returns the exit status for the logs of a fleet.
func statusOfLogs(all []workerLog) int {
	status := exitOK
	for i := range all {
		switch w := &all[i]; {
		case w.Verdict == logWrong:
			return exitFailed
		case w.Verdict == logUnknown || w.Unheard != "" || len(w.found.Disputes) > 0:
			status = exitUnknown
		}
	}
	return status
}

// printLogs prints what is known about the logs of a fleet, and last the number of logs.
func printLogs(out io.Writer, all []workerLog) error {
	var lines, unread []string
	say := func(verdict, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%-8s %s", verdict, policies.Clip(fmt.Sprintf(format, args...), 1100)))
	}
	for i := range all {
		w := &all[i]
		switch {
		case w.Verdict != logOK:
			say(w.Verdict, "%s: %s", w.Worker, w.Why)
		case w.found.Witnessed > 0:
			say(logOK, "%s: records %d to %d, signed up to %d, up to %d as the log of %s has it", w.Worker, w.found.First, w.found.Last, w.found.Signed, w.found.Witnessed, strings.Join(w.found.Witnesses, ", "))
		default:
			say(logOK, "%s: records %d to %d, signed up to %d; no other worker has a checkpoint of it", w.Worker, w.found.First, w.found.Last, w.found.Signed)
		}
		for _, n := range w.found.Notes {
			say("", "note: %s", n)
		}
		for _, d := range w.found.Disputes {
			say(logUnknown, "%s: checkpoints of it that others have: %s", w.Worker, d)
		}
		if w.Unheard != "" {
			say(logUnknown, "%s: checkpoints of others that it has: %s", w.Worker, w.Unheard)
		}
		if w.Report == nil {
			unread = append(unread, w.Worker)
		}
	}
	last := fmt.Sprintf("%d of %d logs were read", len(all)-len(unread), len(all))
	if len(unread) > 0 {
		last += "; not those of " + strings.Join(unread, ", ")
	}
	_, err := fmt.Fprintln(out, strings.Join(append(lines, last), "\n"))
	return err
}
