package console

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

// api is the prefix of the paths of all data.
const api = "api/v1/"

// errAnswered is returned by a handler that has answered the request itself.
var errAnswered = errors.New("it is answered")

// route is a path for data, and the role that it needs.
type route struct {
	method, path string
	of           section
	view         string // name of the view that the page shows if this route exists; may be empty
	needs        Role   // role that the route needs; zero for a route without a login
	serve        func(*request) (any, error)
	body         int64 // maximum size of the body in bytes; zero means maxBody
}

// section is the part of Views that a route uses.
type section int

const (
	always section = iota
	ofServer
	ofFleet
	ofWholeFleet
	ofPeople
	ofRuns
	ofCounts
	ofLog
	ofTrail
	ofPolicy
	ofReplay
	ofSets
	ofUpstreams
	ofUpstreamLogin
	ofTools
)

// routes are all routes for data, with the role that each of them needs. NewPart leaves out
// the routes for logins, and adds the route that lists changes. All values are constants
// and functions, so the linker creates the table, and no code runs for it.
var routes = []route{
	{"GET", "login", always, "", 0, loginMethods, 0},
	{"POST", "login", always, "", 0, logIn, 16 << 10},
	{"POST", "login/begin", always, "", 0, beginLogin, 1 << 10},
	{"POST", "logout", always, "", Viewer, logOut, 0},
	{"GET", "me", always, "", Viewer, aboutMe, 0},
	{"GET", "events", always, "", Viewer, streamEvents, 0},

	{"GET", "workers/{worker}/{path...}", ofFleet, "", Viewer, askWorker, 0},
	{"POST", "workers/{worker}/{path...}", ofFleet, "", Approver, askWorker, 0},
	{"GET", "inbox", ofFleet, "inbox", Viewer, fleetInbox, 0},
	{"GET", "approvals", ofFleet, "history", Viewer, fleetAnswers, 0},
	{"GET", "questions", ofFleet, "", Viewer, fleetAnswers, 0},
	{"GET", "boxes", ofFleet, "boxes", Viewer, fleetList, 0},
	{"GET", "sessions", ofFleet, "sessions", Viewer, fleetList, 0},
	{"GET", "jobs", ofFleet, "jobs", Viewer, fleetList, 0},
	{"GET", "audit", ofFleet, "audit", Viewer, fleetRecords, 0},
	{"GET", "workers", ofWholeFleet, "workers", Viewer, listWorkers, 0},

	{"GET", "inbox", ofPeople, "inbox", Viewer, showInbox, 0},
	{"GET", "approvals", ofPeople, "history", Viewer, listApprovals, 0},
	{"GET", "approvals/{id}", ofPeople, "", Viewer, showApproval, 0},
	{"GET", "approvals/{id}/arguments", ofPeople, "", Viewer, showArguments, 0},
	{"POST", "approvals/{id}/answer", ofPeople, "", Approver, answerApproval, 0},
	{"POST", "approvals/{id}/revoke", ofPeople, "", Approver, revokeApproval, 0},
	{"GET", "questions", ofPeople, "", Viewer, listQuestions, 0},
	{"GET", "questions/{id}", ofPeople, "", Viewer, showQuestion, 0},
	{"POST", "questions/{id}/answer", ofPeople, "", Approver, answerQuestion, 0},

	{"GET", "boxes", ofRuns, "boxes", Viewer, listBoxes, 0},
	{"POST", "boxes/{id}/kill", ofRuns, "", Operator, killBox, 0},
	{"GET", "sessions", ofRuns, "sessions", Viewer, listSessions, 0},
	{"POST", "sessions/{id}/end", ofRuns, "", Operator, endSession, 0},
	{"GET", "jobs", ofRuns, "jobs", Viewer, listJobs, 0},
	{"POST", "jobs/{session}/{id}/end", ofRuns, "", Operator, endJob, 0},
	{"GET", "jobs/{session}/{id}/output", ofRuns, "", Viewer, showOutput, 0},

	{"GET", "stats", ofCounts, "overview", Viewer, showStats, 0},

	{"GET", "audit", ofLog, "audit", Viewer, listRecords, 0},
	{"GET", "audit/{cursor}", ofLog, "", Viewer, showRecord, 0},
	{"GET", "casts/{id}", ofLog, "", Viewer, showCast, 0},
	{"GET", "approvals/{id}/records", ofTrail, "", Viewer, listTrail, 0},

	{"GET", "policy", ofPolicy, "policy", Viewer, showPolicy, 0},
	{"POST", "policy/explain", ofPolicy, "", Viewer, explainCall, 0},
	{"POST", "policy/replay", ofReplay, "", Viewer, replayPolicy, maxPolicy},

	{"GET", "workspaces", ofSets, "workspaces", Viewer, listSets, 0},
	{"GET", "workspaces/{name}/changes", ofSets, "", Viewer, listChanges, 0},
	{"GET", "workspaces/{name}/diff", ofSets, "", Viewer, showDiff, 0},
	{"POST", "workspaces/{name}/apply", ofSets, "", Operator, applySet, 0},
	{"POST", "workspaces/{name}/discard", ofSets, "", Operator, discardSet, 0},

	{"GET", "upstreams", ofUpstreams, "upstreams", Viewer, listUpstreams, 0},
	{"POST", "upstreams/{name}/restart", ofUpstreams, "", Operator, restartUpstream, 0},
	{"POST", "upstreams/{name}/pins", ofUpstreams, "", Approver, decidePin, 0},
	{"POST", "upstreams/{name}/login", ofUpstreamLogin, "", Operator, beginUpstreamLogin, 0},
	{"POST", "upstreams/login", ofUpstreamLogin, "", Operator, finishUpstreamLogin, 16 << 10},

	{"GET", "search", ofTools, "search", Viewer, listEngines, 0},
	{"POST", "search/{name}/test", ofTools, "", Operator, testEngine, 0},
	{"GET", "browser", ofTools, "browser", Viewer, showBrowser, 0},
	{"GET", "browser/{id}/picture", ofTools, "", Viewer, showShot, 0},
	{"POST", "browser/{id}/hold", ofTools, "", Operator, holdSeat, 0},
	{"POST", "browser/{id}/release", ofTools, "", Operator, releaseSeat, 0},
	{"GET", "work", ofTools, "work", Viewer, showWork, 0},
}

// has reports whether views have a section.
func (c *Console) has(v *Views, s section) bool {
	switch s {
	case always:
		return true
	case ofServer:
		return v.scope.all
	case ofFleet:
		return v.Fleet != nil
	case ofWholeFleet:
		return v.Fleet != nil && v.scope.all
	case ofPeople:
		return v.People != nil
	case ofRuns:
		return v.Runs != nil
	case ofCounts:
		return v.Counts != nil
	case ofLog:
		return v.AuditDir != ""
	case ofTrail:
		return v.AuditDir != "" && v.People != nil
	case ofPolicy:
		return v.Policy != nil
	case ofReplay:
		return v.Policy != nil && v.AuditDir != ""
	case ofSets:
		return v.SetsDir != ""
	case ofUpstreams:
		return v.Upstreams != nil
	case ofUpstreamLogin: // a part has no address to which a browser could return
		return v.Upstreams != nil && c.front != nil
	case ofTools:
		return v.Tools != nil
	}
	return false
}

// turns are locks for actions that only one person can do at a time.
type turns struct{ replay, test, picture, login sync.Mutex }

// me describes the person of a request, and the views that exist for them.
type me struct {
	Person string `json:"person"`
	Role   string `json:"role"`
	About
	Until   time.Time `json:"until"`
	Now     time.Time `json:"now"`
	Views   []string  `json:"views"`
	Fleet   bool      `json:"fleet,omitempty"`   // whether the data belong to workers
	Tenants []string  `json:"tenants,omitempty"` // tenants that the person may see; absent if they may see all
	Seq     int64     `json:"seq,omitempty"`     // number of the last event; absent until the first look at the server
}

// aboutMe returns the person of the request, and their views.
func aboutMe(r *request) (any, error) {
	c, about := r.console, r.views.Server.About()
	if !r.who.Scope.all {
		about.Workspace, about.Policy = "", "" // these belong to the server's own place
	}
	shown := []string{}
	for _, at := range c.table {
		if at.view != "" && c.has(r.views, at.of) {
			shown = append(shown, at.view)
		}
	}
	is := me{r.who.Name, r.who.Role.String(), about, r.who.Until, time.Now(), shown, r.views.Fleet != nil, r.who.Scope.tenants, 0}
	select {
	case <-c.known: // every change after this becomes an event
		is.Seq = c.ring.last()
	default:
	}
	return is, nil
}

// each calls use for each route in the table that this console has.
func (c *Console) each(use func(at *route)) {
	for i := range c.table {
		if at := &c.table[i]; c.has(&c.views, at.of) {
			use(at)
		}
	}
}

// handler returns the handler that serves a route to the people who may use it.
func (c *Console) handler(at *route) http.HandlerFunc {
	return func(w http.ResponseWriter, in *http.Request) {
		r := &request{in: in, w: w, path: at.path, body: at.body, console: c, views: &c.views}
		if r.body == 0 {
			r.body = maxBody
		}
		value, err := c.serveRoute(r, at)
		switch {
		case errors.Is(err, errAnswered):
		case err != nil:
			respondError(w, err)
		default:
			respond(w, http.StatusOK, value)
		}
	}
}

// serveRoute runs a route for a person who may use it.
func (c *Console) serveRoute(r *request, at *route) (_ any, err error) {
	if at.needs == 0 {
		return at.serve(r)
	}
	if r.who, err = c.who(r.in, at); err != nil {
		return nil, err
	}
	if s := r.who.Scope; !s.all {
		some := c.views.only(s)
		if r.views = &some; !c.has(r.views, at.of) {
			return nil, fault(http.StatusForbidden, "this is about all tenants of the server, and you may see only %s", s)
		}
	}
	return at.serve(r)
}

// person returns the person of a request, if they may use its route.
func (c *Console) person(r *http.Request, at *route) (Person, error) {
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
