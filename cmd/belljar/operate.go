package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// operations are what the operator of a server does with its sessions and background
// tasks: over the control socket, and by taking a tenant out of the policy.
type operations struct {
	server *mcp.Server
	jobs   *tools.Operator
	audit  *ledger
	log    *slog.Logger
}

func (w *works) operations(server *mcp.Server) *operations {
	return &operations{server, w.operator, w.audit, w.log}
}

// sessionInfo is a session, as the other commands see it. Its id is cut: over HTTP
// the whole of it is what opens the session.
type sessionInfo struct {
	Server int `json:"server"` // process id
	mcp.SessionInfo
	Jobs int `json:"jobs"` // in the background, that run
}

// jobInfo is a background task that runs, as the other commands see it.
type jobInfo struct {
	Server int `json:"server"` // process id
	tools.JobInfo
}

// endInfo asks for the end of sessions, or of tasks of one session.
type endInfo struct {
	Sessions []string `json:"sessions,omitempty"` // cut ids
	Session  string   `json:"session,omitempty"`  // whose tasks are meant
	Tasks    []int64  `json:"tasks,omitempty"`
	Note     string   `json:"note,omitempty"` // for the agent
}

// endGrace is how long a task has after SIGTERM.
const endGrace = 2 * time.Second

func (o *operations) sessions() []sessionInfo {
	jobs := o.jobs.Jobs()
	all := []sessionInfo{}
	for _, s := range o.server.Sessions() {
		one := sessionInfo{Server: os.Getpid(), SessionInfo: s}
		for _, j := range jobs {
			if j.Session == s.ID {
				one.Jobs++
			}
		}
		one.ID = shortID(one.ID)
		all = append(all, one)
	}
	return all
}

func (o *operations) tasks(all []tools.JobInfo) []jobInfo {
	infos := []jobInfo{}
	for _, j := range all {
		j.Session, j.Box, j.Command = shortID(j.Session), shortBox(j), policies.Clip(j.Command, 500)
		infos = append(infos, jobInfo{os.Getpid(), j})
	}
	return infos
}

// shortBox is the id of a task's box without the part that opens its session.
func shortBox(j tools.JobInfo) string {
	return shortID(j.Session) + j.Box[min(len(j.Session), len(j.Box)):]
}

// handle adds what `belljar session` and `belljar job` ask for.
func (o *operations) handle(mux *http.ServeMux) {
	mux.HandleFunc("GET /sessions", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, o.sessions()) })
	mux.HandleFunc("GET /jobs", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, o.tasks(o.jobs.Jobs())) })
	wanted := func(end func(endInfo, string) any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var want endInfo
			if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
				respond(w, http.StatusBadRequest, fmt.Sprintf("read request: %v", err))
				return
			}
			respond(w, http.StatusOK, end(want, answerer(r)))
		}
	}
	mux.HandleFunc("POST /sessions/end", wanted(func(want endInfo, by string) any {
		chosen := func(s mcp.SessionInfo) bool { return slices.Contains(want.Sessions, shortID(s.ID)) }
		return o.end(chosen, by, policies.Clip(want.Note, 500))
	}))
	mux.HandleFunc("POST /jobs/end", wanted(func(want endInfo, by string) any {
		chosen := func(j tools.JobInfo) bool {
			return shortID(j.Session) == want.Session && slices.Contains(want.Tasks, j.ID)
		}
		ended := o.jobs.End(chosen, endGrace)
		for _, j := range ended {
			o.log.Info("an operator ended a background task", "task", j.ID, "session", shortID(j.Session), "tenant", j.Tenant, "by", by)
			o.audit.append(audit.Session{Event: "job-ended", Tenant: j.Tenant, Session: shortID(j.Session), TaskID: j.ID, By: by})
		}
		return o.tasks(ended)
	}))
}

// end ends sessions, and says so in the log and the audit log.
func (o *operations) end(chosen func(mcp.SessionInfo) bool, by, note string) []sessionInfo {
	ended := []sessionInfo{}
	for _, s := range o.server.End(chosen, note) {
		s.ID = shortID(s.ID)
		ended = append(ended, sessionInfo{Server: os.Getpid(), SessionInfo: s})
		o.log.Info("a session was ended, with its box and its background tasks", "session", s.ID, "tenant", s.Tenant, "client", s.Client, "by", by)
		r := audit.Session{Event: "ended", Tenant: s.Tenant, Session: s.ID, By: by}
		r.Client.Name, r.Client.Version = s.Client, s.Version
		o.audit.append(r)
	}
	return ended
}

// endGone ends the sessions of tenants that a policy does not name any more: nobody
// is left who could reach them, or all of their calls would be refused.
func (o *operations) endGone(p *policies.Policy, byToken bool) {
	named := len(p.Tenants()) > 0
	gone := func(s mcp.SessionInfo) bool {
		_, known := p.Tenant(s.Tenant)
		return !known && (s.Tenant != localTenant || byToken && named)
	}
	o.end(gone, "the policy, which does not name the tenant any more", "the policy does not name its tenant any more")
}
