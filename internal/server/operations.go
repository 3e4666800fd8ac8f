package server

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"belljar.dev/internal/auth"
	"belljar.dev/internal/control"
	"belljar.dev/internal/job"
	"belljar.dev/internal/order"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// operations are the actions of a server's operator on its sessions and background tasks:
// over the control socket, at the console, and by removing a tenant from the policy.
type operations struct {
	places *places
	audit  *ledger
	log    *slog.Logger
}

// endGrace is the time that a task has to end after SIGTERM.
const endGrace = 2 * time.Second

func (o *operations) sessions() []control.Session {
	all := []control.Session{}
	for _, p := range o.places.all() {
		jobs := p.operator.Jobs()
		for _, s := range p.mcp.Sessions() {
			one := control.Session{Server: os.Getpid(), SessionInfo: s}
			for _, j := range jobs {
				if j.Session == s.ID {
					one.Jobs++
				}
			}
			one.ID = control.ShortID(one.ID)
			all = append(all, one)
		}
	}
	order.By(all, func(a, b *control.Session) int { return a.Began.Compare(b.Began) })
	return all
}

// jobs returns the background tasks of all places.
func (o *operations) jobs() (all []tools.JobInfo) {
	for _, p := range o.places.all() {
		all = append(all, p.operator.Jobs()...)
	}
	return all
}

func (o *operations) tasks(all []tools.JobInfo) []control.Job {
	infos := []control.Job{}
	for _, j := range all {
		j.Session, j.Box, j.Command = control.ShortID(j.Session), control.ShortBox(j.Box), policies.Clip(j.Command, 500)
		infos = append(infos, control.Job{Server: os.Getpid(), JobInfo: j})
	}
	return infos
}

// handle adds the routes for `belljar session` and `belljar job`.
func (o *operations) handle(mux *http.ServeMux) {
	mux.HandleFunc("GET /sessions", func(w http.ResponseWriter, _ *http.Request) { control.Respond(w, http.StatusOK, o.sessions()) })
	mux.HandleFunc("GET /jobs", func(w http.ResponseWriter, _ *http.Request) {
		control.Respond(w, http.StatusOK, o.tasks(o.jobs()))
	})
	wanted := func(end func(control.End, string) any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var want control.End
			if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
				control.Respond(w, http.StatusBadRequest, fmt.Sprintf("read request: %v", err))
				return
			}
			control.Respond(w, http.StatusOK, end(want, control.Caller(r)))
		}
	}
	mux.HandleFunc("POST /sessions/end", wanted(func(want control.End, by string) any {
		chosen := func(s mcp.SessionInfo) bool { return slices.Contains(want.Sessions, control.ShortID(s.ID)) }
		return o.endAll(chosen, by, policies.Clip(want.Note, 500))
	}))
	mux.HandleFunc("POST /jobs/end", wanted(func(want control.End, by string) any {
		return o.endTasks(want.Session, want.Tasks, by)
	}))
}

// endTasks ends background tasks of a session, which is given by the beginning of its ID.
func (o *operations) endTasks(session string, tasks []int64, by string) []control.Job {
	chosen := func(j tools.JobInfo) bool {
		return control.ShortID(j.Session) == session && slices.Contains(tasks, j.ID)
	}
	var ended []tools.JobInfo
	for _, p := range o.places.all() {
		ended = append(ended, p.operator.End(chosen, endGrace)...)
	}
	for _, j := range ended {
		o.log.Info("an operator ended a background task", "task", j.ID, "session", control.ShortID(j.Session), "tenant", j.Tenant, "by", by)
		o.audit.append(audit.Session{Event: "job-ended", Tenant: j.Tenant, Session: control.ShortID(j.Session), TaskID: j.ID, By: by})
	}
	return o.tasks(ended)
}

// recent returns the background tasks of all places, and those that have ended in a box
// that is still open.
func (o *operations) recent() []control.Job {
	var all []tools.JobInfo
	for _, p := range o.places.all() {
		all = append(all, p.operator.Recent()...)
	}
	return o.tasks(all)
}

// output reads the output of a background task of a session, which is given by the
// beginning of its ID.
func (o *operations) output(session string, task, from int64, most int) (tools.OutputPart, error) {
	chosen := func(j tools.JobInfo) bool { return control.ShortID(j.Session) == session && j.ID == task }
	for _, p := range o.places.all() {
		if part, found, err := p.operator.Output(chosen, from, most); found {
			return part, err
		}
	}
	return tools.OutputPart{}, fmt.Errorf("task %d of session %q: %w", task, policies.Clip(session, 20), job.ErrUnknown)
}

// endAll ends sessions of all places.
func (o *operations) endAll(chosen func(mcp.SessionInfo) bool, by, note string) []control.Session {
	ended := []control.Session{}
	for _, p := range o.places.all() {
		ended = append(ended, o.end(p, chosen, by, note)...)
	}
	return ended
}

// tokensChanged ends the sessions of tokens that are no longer valid, and records the added
// and the ended tokens.
func (o *operations) tokensChanged(added []auth.Token, over []auth.Ended) {
	for _, t := range added {
		o.log.Info("another token is valid from now on", "token", t.ID, "tenant", t.Tenant)
		o.audit.append(audit.Login{Event: "created", Tenant: t.Tenant, Principal: t.Principal()})
	}
	if len(over) == 0 {
		return
	}
	for _, t := range over {
		o.log.Info("a token is no longer valid, and its sessions end", "token", t.ID, "tenant", t.Tenant, "why", string(t.Why))
		o.audit.append(audit.Login{Event: string(t.Why), Tenant: t.Tenant, Principal: t.Principal()})
	}
	for _, p := range o.places.all() { // this also ends streams that were opened while their tokens were being revoked
		p.mcp.Reloaded()
	}
	of := func(s mcp.SessionInfo) bool {
		return slices.ContainsFunc(over, func(t auth.Ended) bool { return t.Principal() == s.Principal })
	}
	o.endAll(of, byToken, "its token was revoked or has expired")
}

// endGone ends the sessions of tenants and issuers that the policy no longer names, and of
// tenants in places that they may no longer enter. Nobody could reach these sessions any
// more, or all of their calls would be refused.
func (o *operations) endGone(l *layout, tokens bool) {
	p := l.policy()
	named := len(p.Tenants()) > 0
	gone := func(s mcp.SessionInfo) bool {
		_, known := p.Tenant(s.Tenant)
		return !known && (s.Tenant != policies.LocalTenant || tokens && named)
	}
	o.endAll(gone, byPolicy, "the policy does not name its tenant any more")
	stranger := func(s mcp.SessionInfo) bool {
		issuer, _, of := strings.Cut(s.Principal, "|")
		return of && !slices.ContainsFunc(p.Login().Issuers(), func(i policies.Issuer) bool { return i.URL == issuer })
	}
	o.endAll(stranger, byPolicy, "the policy does not name the issuer of its token any more")
	if !tokens {
		return
	}
	for _, at := range o.places.all() {
		outside := func(s mcp.SessionInfo) bool { return !l.enters(s.Tenant, at.Workspace) }
		o.end(at, outside, byPolicy, "the policy does not let its tenant into this place any more")
	}
}
