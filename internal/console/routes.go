package console

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

// api is what the paths of all data begin with.
const api = "api/v1/"

// errAnswered says that a handler has answered already.
var errAnswered = errors.New("it is answered")

// route is a path of the data, and who may use it.
type route struct {
	method, path string
	view         string // that the page shows if this route exists; empty for none
	needs        Role   // zero for a route without a login
	serve        func(*request) (any, error)
	body         int64 // bytes that a body may have; maxBody if zero
}

// turns are what is done for one person at a time.
type turns struct{ replay, test, picture, login sync.Mutex }

// routes are all routes of the data that this console has. Nothing else says who may do
// what.
func (c *Console) routes() []route { return c.routesOf(c.views) }

// routesOf are the routes of views. A person of some tenants has those of Views.only.
func (c *Console) routesOf(views Views) []route {
	all := []route{
		{"GET", "login", "", 0, c.loginMethods, 0},
		{"POST", "login", "", 0, c.login, 16 << 10},
		{"POST", "login/begin", "", 0, c.begin, 1 << 10},
		{"POST", "logout", "", Viewer, c.logout, 0},
		{"GET", "me", "", Viewer, c.me, 0},
		{"GET", "events", "", Viewer, c.stream, 0},
	}
	if views.Fleet != nil {
		h := &fleetHandlers{views.Fleet, c.look}
		all = append(all,
			route{"GET", "workers/{worker}/{path...}", "", Viewer, h.one, 0},
			route{"POST", "workers/{worker}/{path...}", "", Approver, h.one, 0},
			route{"GET", "inbox", "inbox", Viewer, h.inbox, 0},
			route{"GET", "approvals", "history", Viewer, h.answers("approvals"), 0},
			route{"GET", "questions", "", Viewer, h.answers("questions"), 0},
			route{"GET", "boxes", "boxes", Viewer, h.list("boxes"), 0},
			route{"GET", "sessions", "sessions", Viewer, h.list("sessions"), 0},
			route{"GET", "jobs", "jobs", Viewer, h.list("jobs"), 0},
			route{"GET", "audit", "audit", Viewer, h.audit, 0},
		)
		if views.scope.all {
			all = append(all, route{"GET", "workers", "workers", Viewer, h.workers, 0})
		}
	}
	if views.People != nil {
		h := &peopleHandlers{views.People, views.Upstreams}
		all = append(all,
			route{"GET", "inbox", "inbox", Viewer, h.inbox, 0},
			route{"GET", "approvals", "history", Viewer, h.approvals, 0},
			route{"GET", "approvals/{id}", "", Viewer, h.approval, 0},
			route{"POST", "approvals/{id}/answer", "", Approver, h.approve, 0},
			route{"POST", "approvals/{id}/revoke", "", Approver, h.revoke, 0},
			route{"GET", "questions", "", Viewer, h.questions, 0},
			route{"GET", "questions/{id}", "", Viewer, h.question, 0},
			route{"POST", "questions/{id}/answer", "", Approver, h.answer, 0},
		)
	}
	if views.Runs != nil {
		h := &runHandlers{views.Runs}
		all = append(all,
			route{"GET", "boxes", "boxes", Viewer, h.boxes, 0},
			route{"POST", "boxes/{id}/kill", "", Operator, h.killBox, 0},
			route{"GET", "sessions", "sessions", Viewer, h.sessions, 0},
			route{"POST", "sessions/{id}/end", "", Operator, h.endSession, 0},
			route{"GET", "jobs", "jobs", Viewer, h.jobs, 0},
			route{"POST", "jobs/{session}/{id}/end", "", Operator, h.endJob, 0},
			route{"GET", "jobs/{session}/{id}/output", "", Viewer, h.jobOutput, 0},
		)
	}
	if views.Counts != nil {
		h := &countHandlers{views.Counts, views.Runs, &c.usage, views.scope}
		all = append(all, route{"GET", "stats", "overview", Viewer, h.stats, 0})
	}
	if views.AuditDir != "" {
		h := &logHandlers{views.AuditDir, &c.chain, views.scope}
		all = append(all,
			route{"GET", "audit", "audit", Viewer, h.audit, 0},
			route{"GET", "audit/{cursor}", "", Viewer, h.auditRecord, 0},
			route{"GET", "casts/{id}", "", Viewer, h.cast, 0},
		)
		if views.People != nil {
			trail := &trailHandlers{h, views.People}
			all = append(all, route{"GET", "approvals/{id}/records", "", Viewer, trail.approval, 0})
		}
	}
	if views.Policy != nil {
		h := &policyHandlers{views.Policy, views.Counts, views.AuditDir, &c.turns.replay}
		all = append(all,
			route{"GET", "policy", "policy", Viewer, h.show, 0},
			route{"POST", "policy/explain", "", Viewer, h.explain, 0},
		)
		if h.log != "" {
			all = append(all, route{"POST", "policy/replay", "", Viewer, h.replay, maxPolicy})
		}
	}
	if views.SetsDir != "" {
		h := &setHandlers{views.SetsDir, views.Server, views.scope}
		all = append(all,
			route{"GET", "workspaces", "workspaces", Viewer, h.list, 0},
			route{"GET", "workspaces/{name}/changes", "", Viewer, h.changes, 0},
			route{"GET", "workspaces/{name}/diff", "", Viewer, h.diff, 0},
			route{"POST", "workspaces/{name}/apply", "", Operator, h.apply, 0},
			route{"POST", "workspaces/{name}/discard", "", Operator, h.discard, 0},
		)
	}
	if views.Upstreams != nil {
		h := &upstreamHandlers{views.Upstreams}
		all = append(all,
			route{"GET", "upstreams", "upstreams", Viewer, h.list, 0},
			route{"POST", "upstreams/{name}/restart", "", Operator, h.restart, 0},
			route{"POST", "upstreams/{name}/pins", "", Approver, h.decide, 0},
		)
		if c.front != nil { // a part has no address to which a browser could come back
			logins := &upstreamLoginHandlers{views.Upstreams, c}
			all = append(all,
				route{"POST", "upstreams/{name}/login", "", Operator, logins.begin, 0},
				route{"POST", "upstreams/login", "", Operator, logins.finish, 16 << 10},
			)
		}
	}
	if views.Tools != nil {
		h := &toolHandlers{views.Tools, views.Runs, &c.turns.test, &c.turns.picture}
		all = append(all,
			route{"GET", "search", "search", Viewer, h.search, 0},
			route{"POST", "search/{name}/test", "", Operator, h.testEngine, 0},
			route{"GET", "browser", "browser", Viewer, h.browser, 0},
			route{"GET", "browser/{id}/picture", "", Viewer, h.shot, 0},
			route{"POST", "browser/{id}/hold", "", Operator, h.hold, 0},
			route{"POST", "browser/{id}/release", "", Operator, h.release, 0},
			route{"GET", "work", "work", Viewer, h.work, 0},
		)
	}
	return all
}

// me is who asks, and what there is to see.
type me struct {
	Person string `json:"person"`
	Role   string `json:"role"`
	About
	Until   time.Time `json:"until"`
	Now     time.Time `json:"now"`
	Views   []string  `json:"views"`
	Fleet   bool      `json:"fleet,omitempty"`   // what it shows is of workers
	Tenants []string  `json:"tenants,omitempty"` // whose things the person may see; absent for all
}

func (c *Console) me(r *request) (any, error) {
	views, about := c.views, c.views.Server.About()
	if !r.who.Scope.all {
		views = views.only(r.who.Scope)
		about.Workspace, about.Policy = "", "" // of the server's own place
	}
	shown := []string{}
	for _, at := range c.routesOf(views) {
		if at.view != "" {
			shown = append(shown, at.view)
		}
	}
	return me{r.who.Name, r.who.Role.String(), about, r.who.Until, time.Now(), shown, views.Fleet != nil, r.who.Scope.tenants}, nil
}

// handler serves a route to those who may use it.
func (c *Console) handler(at route) http.HandlerFunc {
	if at.body == 0 {
		at.body = maxBody
	}
	return func(w http.ResponseWriter, r *http.Request) {
		req := &request{Request: r, w: w, body: at.body}
		if at.needs > 0 {
			var err error
			if req.who, err = c.who(r, at); err != nil {
				respondError(w, err)
				return
			}
		}
		serve := at.serve
		if at.needs > 0 && !req.who.Scope.all {
			serve = c.serveSome(at, req.who.Scope)
		}
		value, err := serve(req)
		switch {
		case errors.Is(err, errAnswered):
		case err != nil:
			respondError(w, err)
		default:
			respond(w, http.StatusOK, value)
		}
	}
}

// serveSome is what a route does for people of some tenants.
func (c *Console) serveSome(at route, s Scope) func(*request) (any, error) {
	for _, own := range c.routesOf(c.views.only(s)) {
		if own.method == at.method && own.path == at.path {
			return own.serve
		}
	}
	return func(*request) (any, error) {
		return nil, fault(http.StatusForbidden, "this is about all tenants of the server, and you may see %s", s)
	}
}

// person returns who sent a request, if they may use its route.
func (c *Console) person(r *http.Request, at route) (Person, error) {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "bearer") || token == "" {
		return Person{}, fault(http.StatusUnauthorized, "log in first: `belljar console` prints the link for it")
	}
	who, ok := c.access.holder(token)
	if ok {
		who, ok = who.holds(r.Context(), &c.views)
	}
	switch {
	case ok && who.Role >= at.needs:
		return who, nil
	case ok:
		return Person{}, errRole(who.Role, at)
	case c.views.Server.Agent(r.Context(), token):
		c.views.Server.Noted(Login{Event: "refused", Person: "an agent", Reason: "the token of a client, at " + at.method + " /" + api + at.path})
		return Person{}, fault(http.StatusForbidden, "the token of an agent opens nothing of the console; a person logs in by the link that `belljar console` prints")
	}
	return Person{}, fault(http.StatusUnauthorized, "this token is not valid (any more); `belljar console` prints a link to log in again")
}
