package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/mcp"
	"belljar.dev/policies/audit"
)

// The ways of asking a person, by the names that agents and logs contain.
const (
	wayCommand = "command line"
	wayClient  = "client"
	wayWebhook = "webhook"
)

// ways contains the ways of asking a person that a server has, for the questions of all its
// places. Its methods are safe for concurrent use.
type ways struct {
	places *places // places whose calls and agents ask
	// state is the value of --state for the answering commands. It is empty if they find
	// this server without --state.
	state string
	// asked is called with each new question of an agent; it may be nil. It must not block.
	asked func(question.Asked)
	hook  *webhook // webhook; nil without a webhook

	mu    sync.Mutex
	names []string               // guarded by mu: names of the open ways
	tells []func(approval.Event) // guarded by mu: functions that get every event, for example the webhook's
}

// openWays makes the ways of asking. No way is open yet.
func (s *Server) openWays(context.Context) error {
	if s.cfg.Service == nil {
		return nil
	}
	w := &ways{places: s.places}
	usual, err := config.FindState("")
	if err != nil || usual != s.State {
		w.state = s.State
	}
	s.ways = w
	return nil
}

// open records that people can now be asked in one more way.
func (w *ways) open(way string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names = append(w.names, way)
}

// tell registers a function that gets every event of a question. It must not block.
func (w *ways) tell(f func(approval.Event)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tells = append(w.tells, f)
}

func (w *ways) happened(e approval.Event) {
	w.mu.Lock()
	all := w.tells
	w.mu.Unlock()
	for _, f := range all {
		f(e)
	}
}

// command returns the command with which a person answers. It is empty if the command line
// is not open as a way.
func (w *ways) command(text string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !slices.Contains(w.names, wayCommand):
		return ""
	case w.state != "": // an agent does not get the path of the state directory
		return text + " --state DIR"
	}
	return text
}

// approver puts the questions of the calls of one place on a desk.
type approver struct {
	*ways
	desk  *approval.Desk
	gate  *gate
	place string // path of the workspace
	// questions is the desk for the agents' own questions. The same ways answer them.
	questions *question.Desk
}

// openApprover opens the desks for the questions of a place's calls. It does not open the
// database.
func (p *place) openApprover(context.Context) error {
	s := p.server
	if s.ways == nil {
		return nil
	}
	p.approver = &approver{ways: s.ways, gate: p.gate, place: p.Workspace, questions: question.New(p.books.kept)}
	p.approver.desk = approval.New(approval.Config{
		Config: p.books.kept, Event: func(e approval.Event) {
			s.audit.approval(e)
			p.flow.approval(e)
			s.ways.happened(e)
		},
		Policy: func() string { return p.gate.now.Load().Hash() },
	})
	return nil
}

// stop ends the waiting of the calls that wait for an answer: they continue without one.
// Their questions outlive the server.
func (a *approver) stop() {
	a.desk.Stop()
	a.questions.Stop()
}

// Ways returns the open ways. may is false if the policy says that nobody may answer for
// the tenant.
func (a *approver) Ways(tenant string) (ways []string, may bool) {
	if t, known := a.gate.now.Load().Tenant(tenant); known && t.Approvers != nil && len(t.Approvers) == 0 {
		return nil, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.names...), true
}

// Ask asks a question.
func (a *approver) Ask(ctx context.Context, q mcp.Question) (mcp.Approval, error) {
	got, asked, err := a.desk.Ask(ctx, request(q))
	out := a.told(got)
	out.New = asked
	return out, err
}

// Wait waits for the answer to a question, at most for the time most.
func (a *approver) Wait(ctx context.Context, id string, most time.Duration) (mcp.Approval, error) {
	got, err := a.desk.Wait(ctx, id, most)
	return a.told(got), err
}

// told converts an approval to the form for the call, with the command that answers it.
func (a *approver) told(got approval.Approval) mcp.Approval {
	out := mcp.Approval{
		ID: got.ID, Tenant: got.Tenant, State: string(got.State), Tool: got.Tool, Rule: got.Rule, Shown: got.Shown.Lines(), By: got.By, Via: got.Via, Note: got.Note, Scope: string(got.Scope),
		Left: max(0, time.Until(got.Expires)), Waited: got.Waited(time.Now()), Command: a.command("belljar approve yes " + got.ID),
	}
	if got.State == approval.Approved {
		out.Left = max(0, time.Until(got.Until))
	}
	for _, s := range got.Scopes {
		out.Scopes = append(out.Scopes, string(s))
	}
	return out
}

// Use uses a yes for a call.
func (a *approver) Use(ctx context.Context, q mcp.Question, id string) (bool, error) {
	return a.desk.Use(ctx, id, request(q))
}

// Answer records a client's answer.
func (a *approver) Answer(ctx context.Context, id string, said mcp.ClientAnswer) error {
	via := wayClient
	if said.Itself { // an answer without a person is never a yes
		via = mcp.ViaClientItself
	}
	_, err := a.desk.Answer(ctx, id, approval.Reply{
		Yes: said.Yes, Scope: approval.Scope(said.Scope), By: mcp.Answerer(said.Client, said.Took), Via: via, Note: said.Note,
	})
	return err
}

// request converts a call to the desk's form. Its principal is the tenant, because nothing
// else is known of the caller: the name that a client gives itself proves nothing.
func request(q mcp.Question) approval.Request {
	return approval.Request{CallID: q.Call.ID, Principal: "tenant " + q.Facts.Tenant, Facts: q.Facts, Decision: q.Decision, Commands: q.Commands}
}

// approval records an event of a question in the audit log.
func (l *ledger) approval(e approval.Event) {
	a := e.Approval
	r := audit.Approval{
		ID: a.ID, CallID: e.CallID, Tenant: a.Tenant, Session: control.ShortID(a.Session), Event: e.Kind,
		By: a.By, Via: a.Via, Scope: string(a.Scope),
	}
	if !a.Answered.IsZero() {
		r.WaitedMS = a.Waited(time.Now()).Milliseconds()
	}
	l.append(r)
}
