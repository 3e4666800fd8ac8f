package server

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"belljar.dev/browser/act"
	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/closers"
	"belljar.dev/internal/fleet"
	"belljar.dev/internal/gateway"
	"belljar.dev/internal/keyfile"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/store"
	"belljar.dev/internal/websession"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
	"belljar.dev/sandbox"
)

// place is one open workspace: the sessions in it, what decides about their calls, and what
// they keep. Another place sees nothing of it.
type place struct {
	Place
	id     string  // name of the place in a fleet; empty outside a fleet
	server *Server // server, with what all places share
	opened closers.Stack

	gate     *gate // gate with the policy in force here
	books    books
	boxes    *sandbox.Workspace
	approver *approver // nil if nobody is asked
	flow     flow
	mcp      *mcp.Server      // nil without tools
	gateway  *gateway.Gateway // nil without tools
	operator *tools.Operator  // nil without tools
}

// newPlace returns the place of a workspace. It opens nothing.
func newPlace(s *Server, workspace string, policy *policies.Policy) *place {
	p := &place{Place: s.Place, server: s}
	p.Workspace, p.Policy = workspace, policy
	p.gate = s.gate
	if workspace != s.Workspace {
		p.gate = gateOf(s, workspace, policy)
	}
	p.books.kept = store.Config{Store: s.kept, Place: workspace, Self: self(), Alive: alive, Log: s.Log}
	if id := s.places.layout.Load().idOf(workspace); id != "" {
		// Such a place has its own state, which moves with the place. No other process uses
		// this state.
		p.id, p.State = id, filepath.Join(filepath.Dir(workspace), ofState)
		p.books.kept = store.Config{Store: store.New(p.State), Place: id, Self: self(), Log: s.Log}
	}
	return p
}

// gateOf returns the gate of a workspace. Each later layout replaces the policy in it, see
// places.hold.
func gateOf(s *Server, workspace string, policy *policies.Policy) *gate {
	g := &gate{mode: s.cfg.Mode, login: s.login, enters: func(tenant string) bool {
		return s.places.layout.Load().enters(tenant, workspace)
	}}
	g.now.Store(policy)
	return g
}

// open opens the parts of a place in a fixed order, like Server.open. After an error, the
// caller closes the place.
func (p *place) open(ctx context.Context) (err error) {
	if p.id != "" {
		p.opened.Add(closers.Logged(p.Log, "the state of a place was not closed", p.books.kept.Store.Close))
	}
	if p.boxes, err = p.server.sandbox.Workspace(p.Workspace); err != nil {
		return err
	}
	p.boxes.Regrant(ctx, nil) // forgets an earlier policy that had this workspace
	for _, step := range []func(context.Context) error{p.openSkills, p.openApprover, p.openHooks, p.openCallbacks, p.openTools, p.openUpstreams, p.run} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close closes the parts in the reverse order, and waits for their end. A second call does
// nothing.
func (p *place) close() { _ = p.opened.Close() } // each step logs its error

// shut ends the sessions of a place that no policy has any more, and closes the place.
func (p *place) shut(ctx context.Context) {
	p.server.places.operations().end(p, func(mcp.SessionInfo) bool { return true }, byPolicy, "the policy does not name its place any more")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	_ = p.mcp.Shutdown(ctx) // its sessions have already ended
	p.close()
}

// openTools makes the MCP server with all tools.
func (p *place) openTools(context.Context) error {
	s := p.server
	if s.cfg.Tools == nil {
		return nil
	}
	p.books.open(p.Place, p.flow.jobEnded)
	seen := &sessions{audit: s.audit, place: p.id, flow: &p.flow, books: &p.books, resumes: s.cfg.Service != nil, log: p.Log}
	if p.Workspace != s.Workspace {
		seen.workspace = p.Workspace
	}
	cfg := mcp.Config{
		Name:         "belljar",
		Version:      buildinfo.Version(),
		Instructions: "A shell in a sandbox. /workspace is the project; the network is closed, except for what the policy opens. A refusal says why and what to do instead.",
		Gate:         p.gate,
		Tenant:       p.Tenant,
		// Guarded: the front has checked Host and Origin
		HTTP:         mcp.HTTP{Auth: p.gate, Guarded: true, Shared: s.places.shared, Tickets: s.login.tickets},
		Redact:       audit.Clean,
		Suite:        s.cfg.Tools.Suite,
		Structured:   s.cfg.Tools.Structured,
		TrustClients: s.cfg.Tools.TrustClients,
		Log:          p.Log,
		Moments: mcp.Moments{
			OnSession: func(ctx context.Context, session *mcp.Session) {
				seen.began(ctx, session)
				p.gateway.Begin(ctx, session)
			},
			OnSessionEnd: func(session *mcp.Session) {
				p.gateway.End(session)
				seen.ended(session)
			},
			Gather: func(ctx context.Context, session *mcp.Session) { p.gateway.Gather(ctx, session) },
		},
	}
	// An interface that holds a nil pointer is not nil.
	if s.audit != nil {
		cfg.Audit = placed{s.audit, p.id}
	}
	if s.cfg.http() {
		cfg.SSE, cfg.Sockets = s.cfg.Service.SSE, s.cfg.Service.Sockets
	}
	if s.cfg.linked() {
		cfg.HTTP.MarkNotStarted = fleet.MarkNotStarted
	}
	if p.id != "" {
		key, err := keyfile.Make(filepath.Join(p.State, requestsKey))
		if err != nil {
			return fmt.Errorf("open the key of the states of calls: %w", err)
		}
		cfg.Key = key
	}
	if s.cfg.tenanted() && p.State != "" {
		cfg.Kept = websession.NewBook(p.books.kept)
	}
	if p.flow.around != nil {
		cfg.Around = p.flow.around
	}
	if p.approver != nil {
		cfg.Approver = p.approver
	}
	if t := traced(s.tracer, s.monitor, s.counts); t != nil {
		cfg.Trace = t
	}
	var err error
	if p.mcp, err = mcp.New(cfg); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	backends := tools.Backends{
		Sandbox: p.boxes, Search: s.search, Reader: s.reading.reader, Browser: s.reading.chrome, Checkpoints: s.cfg.Checkpoints, Log: p.Log,
		Browsers: &tools.Browsers{Open: browsersOf(s.reading.seats), Secret: s.host.secret, Acts: policies.PossibleActs(p.gate.now.Load())},
		Todos:    p.books.todos, Made: p.books.kept.Store.Made, CheckCommands: approval.CheckCommands,
		Plans: p.books.plans, Jobs: p.books.jobs, Skills: p.flow.skills, Callbacks: p.flow.callbacks, Aside: p.flow.aside,
		Toolkit: s.cfg.toolkitIn(p.gate),
	}
	if s.audit != nil {
		backends.Record, backends.Browsers.Reel = s.audit.record, s.audit.reel
	}
	if p.approver != nil {
		backends.Approvals = p.approver
		backends.Questions = asker{p.approver.questions, p.approver}
	}
	p.operator = tools.Add(p.mcp, backends)
	return nil
}

// browsersOf returns the function that opens a browser for an agent.
func browsersOf(seats *act.Seats) func(context.Context, policies.Grant, act.Options) (tools.Chrome, error) {
	return func(ctx context.Context, g policies.Grant, o act.Options) (tools.Chrome, error) {
		seat, err := seats.Open(ctx, g, o)
		if err != nil {
			return nil, err // not seat: a tools.Chrome with a nil pointer in it is not nil
		}
		return seat, nil
	}
}

// run starts the work that runs while calls are answered: callbacks and skills.
func (p *place) run(ctx context.Context) error {
	if p.mcp == nil {
		return nil
	}
	if p.server.cfg.Service != nil {
		if err := p.books.jobs.Settle(ctx); err != nil {
			p.Log.Error("the work that an earlier server has left is not known", "workspace", p.Workspace, "err", err)
		}
	}
	if p.flow.around == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { p.flow.run(ctx, p.mcp) })
	p.opened.Do(func() {
		cancel()
		running.Wait()
	})
	return nil
}

// stopAsking ends the waiting of the calls that wait for an answer of a person: they
// continue without one.
func (p *place) stopAsking() {
	if p.approver != nil {
		p.approver.stop()
	}
}

// hold applies the policy that the gate has now to the sessions and boxes of a place.
func (p *place) hold(ctx context.Context) {
	if p.mcp != nil {
		p.mcp.Reloaded()
	}
	// Open boxes get the egress that their profiles have now.
	p.boxes.Regrant(ctx, p.gate.now.Load())
	p.reloadUpstreams()
}

// decide decides by the policy, and records the decision. It returns the ID of the call.
func (p *place) decide(ctx context.Context, f policies.Facts) (policies.Decision, string, error) {
	started, id := time.Now(), mcp.NewCallID()
	d := p.gate.Decide(f)
	if p.server.audit == nil {
		return d, id, nil
	}
	err := placed{p.server.audit, p.id}.Decided(ctx, mcp.Decided{Call: mcp.Call{ID: id}, Facts: f, Decision: d, Took: time.Since(started)})
	return d, id, err
}
