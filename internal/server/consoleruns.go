package server

import (
	"errors"
	"log/slog"
	"net/http"

	"belljar.dev/internal/console"
	"belljar.dev/internal/control"
	"belljar.dev/internal/job"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// consoleRuns answers the console's requests about boxes, sessions and background tasks.
type consoleRuns struct {
	boxes      *boxHandlers
	operations *operations
	audit      *ledger
	log        *slog.Logger
}

// Boxes returns the open boxes.
func (v *consoleRuns) Boxes() []control.Box { return v.boxes.all() }

// KillBox ends a box.
func (v *consoleRuns) KillBox(id, by string) error {
	box, err := v.boxes.find(id)
	switch {
	case errors.Is(err, errNoBox):
		return &console.Error{Status: http.StatusNotFound, Err: err}
	case err != nil:
		return err
	}
	tenant, short := box.Grant().Tenant(), control.ShortBox(box.ID())
	v.log.Info("an operator ended a box", "box", short, "tenant", tenant, "by", by)
	v.audit.append(audit.Session{Event: "box-ended", Tenant: tenant, Session: short, By: by})
	return box.Close()
}

// Sessions returns the open sessions.
func (v *consoleRuns) Sessions() []control.Session { return v.operations.sessions() }

// EndSession ends a session.
func (v *consoleRuns) EndSession(id, by, note string) []control.Session {
	chosen := func(s mcp.SessionInfo) bool { return control.ShortID(s.ID) == control.ShortID(id) }
	return v.operations.endAll(chosen, by, policies.Clip(note, 500))
}

// Jobs returns the background tasks.
func (v *consoleRuns) Jobs() []control.Job { return v.operations.recent() }

// EndJob ends a background task.
func (v *consoleRuns) EndJob(session string, task int64, by string) []control.Job {
	return v.operations.endTasks(control.ShortID(session), []int64{task}, by)
}

// Output reads the output of a background task.
func (v *consoleRuns) Output(session string, task, from int64, most int) (tools.OutputPart, error) {
	part, err := v.operations.output(control.ShortID(session), task, from, most)
	if errors.Is(err, job.ErrUnknown) {
		err = &console.Error{Status: http.StatusNotFound, Err: err}
	}
	return part, err
}
