package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
	"belljar.dev/sandbox"
)

// auditCheck checks the audit log of a policy: whether it can be written, and which
// losses the running servers and the log itself report.
func auditCheck(ctx context.Context, policy *policies.Policy, stateName string) sandbox.Check {
	c := sandbox.Check{Name: "audit log"}
	a, asked := policy.Audit()
	if asked && a.Level == policies.AuditNone {
		c.Detail = "the policy turns it off"
		c.OK = true
		return c
	}
	state, err := config.FindState(stateName)
	dir := a.Path
	if dir == "" {
		dir = config.AuditDir(state)
	}
	if dir == "" || err != nil && a.Path == "" {
		c.Detail, c.Mend = "no state directory was found", "name a state directory with --state"
		return c
	}
	c.OK, c.Detail = true, dir
	var lost []string
	if room, err := freeBytes(dir); err == nil && room < leastRoom {
		lost = append(lost, fmt.Sprintf("its disk has %d MiB left, and when it is full %s", room>>20, whenFull(a)))
		c.Mend = "make room, or lower keep and rotate of audit in the policy"
	}
	if err := unix.Access(dir, unix.W_OK); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.OK = false
		lost = append(lost, fmt.Sprintf("it cannot be written: %v", err))
	}
	said, err := audit.ReadLosses(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.Detail += ", not begun yet"
	case err != nil:
		lost = append(lost, err.Error())
	case said.Count > 0:
		lost = append(lost, fmt.Sprintf("it states that %d records were lost since %s: %s", said.Count, said.Since.UTC().Format(time.RFC3339), said.Last))
	}
	lost = append(lost, losses(ctx, state, dir)...)
	c.Degraded = strings.Join(lost, "; ")
	return c
}

// leastRoom is how much room a disk should have for a log, in bytes: the size of one file
// of the log with the default settings.
const leastRoom = policies.DefaultAuditRotate

func whenFull(a policies.Audit) string {
	if a.Required {
		return "no call runs"
	}
	return "calls run without records, except those of profiles with audit: required, which are refused"
}

// losses returns what running servers have lost of a log's records and could not
// state in the log.
func losses(ctx context.Context, state, dir string) []string {
	if state == "" {
		return nil
	}
	clients, err := control.Clients(state)
	if err != nil {
		return nil // the commands that need the servers report that error
	}
	var all []string
	for _, s := range clients {
		var h control.Audit
		if s.Ask(ctx, http.MethodGet, "/audit", nil, &h) != nil || h.Lost == 0 || h.Stated || !sameDir(h.Dir, dir) {
			continue
		}
		all = append(all, fmt.Sprintf("server %d cannot write it and has lost %d records since %s: %s", s.PID, h.Lost, h.Since.UTC().Format(time.RFC3339), h.Why))
	}
	return all
}

func sameDir(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// freeBytes returns how many bytes an ordinary user may still write to the file system of a
// directory.
func freeBytes(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(config.RealPath(dir), &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(max(s.Bsize, 0)), nil
}
