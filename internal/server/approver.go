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

// The ways of asking a person, by the names that agents and logs see.
const (
	wayCommand = "command line"
	wayClient  = "client"
	wayWebhook = "webhook"
)

// ways are the ways of asking a person that a server has, for the questions of all its
// places. Its methods are safe for concurrent use.
type ways struct {
	places *places // whose questions these are
	// state is the value of --state that the answering commands need; empty if they
	// find this server without it.
	state string
	// asked is called with each new question of an agent; it may be nil. It must not block.
	asked func(question.Asked)
	hook  *webhook // nil without one

	mu    sync.Mutex
	names []string               // guarded by mu: of the open ones
	tells []func(approval.Event) // guarded by mu: the webhook; empty without one
}

// openWays makes the ways of asking. None of them is open yet.
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

// open notes that people can be asked in another way.
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

// command returns the command with which a person answers; empty if that way is not open.
func (w *ways) command(text string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !slices.Contains(w.names, wayCommand):
		return ""
	case w.state != "": // an agent is not told where the server keeps what outlives it
		return text + " --state DIR"
	}
	return text
}

// approver puts the questions of the calls of one place on a desk.
type approver struct {
	*ways
	desk  *approval.Desk
	gate  *gate
	place string // the workspace
	// questions are the agents' own questions; the same ways answer them.
	questions *question.Desk
}

// openApprover opens the desks for questions of a place's calls. Nothing is opened on the
// disk before the first question.
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

// stop makes the calls that wait for an answer go on without one. Their questions
// outlive the server.
func (a *approver) stop() {
	a.desk.Stop()
	a.questions.Stop()
}

// Ways returns the open ways; none if the policy says that nobody may answer for the
// tenant.
func (a *approver) Ways(tenant string) (ways []string, may bool) {
	if t, known := a.gate.now.Load().Tenant(tenant); known && t.Approvers != nil && len(t.Approvers) == 0 {
		return nil, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.names...), true
}

// Ask puts a question.
func (a *approver) Ask(ctx context.Context, q mcp.Question) (mcp.Approval, error) {
	got, asked, err := a.desk.Ask(ctx, request(q))
	out := a.told(got)
	out.New = asked
	return out, err
}

// Wait waits for its answer.
func (a *approver) Wait(ctx context.Context, id string, most time.Duration) (mcp.Approval, error) {
	got, err := a.desk.Wait(ctx, id, most)
	return a.told(got), err
}

// told converts an approval for the call, with the command to answer it.
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

// Use spends a yes.
func (a *approver) Use(ctx context.Context, q mcp.Question, id string) (bool, error) {
	return a.desk.Use(ctx, id, request(q))
}

// Answer records a client's answer.
func (a *approver) Answer(ctx context.Context, id string, said mcp.ClientAnswer) error {
	via := wayClient
	if said.Itself { // such an answer is never a yes
		via = mcp.ViaClientItself
	}
	_, err := a.desk.Answer(ctx, id, approval.Reply{
		Yes: said.Yes, Scope: approval.Scope(said.Scope), By: mcp.Answerer(said.Client, said.Took), Via: via, Note: said.Note,
	})
	return err
}

// request converts a call to the desk's form. Its principal is the tenant, the only
// thing that is known of the caller: what a client calls itself proves nothing.
func request(q mcp.Question) approval.Request {
	return approval.Request{CallID: q.Call.ID, Principal: "tenant " + q.Facts.Tenant, Facts: q.Facts, Decision: q.Decision, Commands: q.Commands}
}

// approval writes down what happened to a question.
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
