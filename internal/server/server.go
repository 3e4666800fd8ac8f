package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/closers"
	"belljar.dev/internal/config"
	"belljar.dev/internal/front"
	"belljar.dev/internal/hooks"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/store"
	"belljar.dev/internal/websession"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
	"belljar.dev/sandbox"
	"belljar.dev/search"
)

// Place is what the names on a command line led to. Nothing changes it once a Server is
// open.
type Place struct {
	Workspace  string           // absolute, without symbolic links
	PolicyName string           // for people
	Policy     *policies.Policy // as it was at the start
	State      string           // directory for what outlives the program; empty where none can be used
	Tenant     string           // whose calls those are that come without a token
	Log        *slog.Logger
}

// Server is what a command works with.
type Server struct {
	Place
	cfg    Config
	opened closers.Stack

	gate     *gate // the policy that holds
	books    books
	front    *front.Front // nil over stdio
	audit    *ledger      // nil where no log is kept
	host     *host
	sandbox  *sandbox.Supervisor
	reading  reading
	search   *search.Fan
	tracer   *tracer   // nil where no call is traced
	monitor  *monitor  // nil without an admin listener
	approver *approver // nil where nobody is asked
	flow     flow
	mcp      *mcp.Server     // nil without tools
	operator *tools.Operator // nil as well
	reloader *reloader       // nil for a command that makes one call
	started  bool            // it is logged that the server starts
}

// Open opens what a command asks for. The caller closes the server; where Open returns
// an error, nothing is left open. Much of a server ends with ctx: it takes no more
// questions to people, and does not read its policy again.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{cfg: cfg}
	s.Tenant, s.Log = cmp.Or(cfg.Tenant, policies.LocalTenant), cfg.Log
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// open is the one order of opening: each step may use those above it. A step that holds
// something notes at once how it is released.
func (s *Server) open(ctx context.Context) error {
	if s.cfg.Service != nil { // which mostly has an audit log
		var warming sync.WaitGroup
		warming.Go(audit.Warm)
		s.opened.Do(warming.Wait)
	}
	for _, step := range []func(context.Context) error{
		s.openPolicy, s.openState, s.openTenants, s.openMonitor, s.openFront, s.openLedger, s.openHost, s.openSkills, s.openSandbox, s.openReading, s.openSearch,
		s.begin, s.openTracer, s.openApprover, s.openHooks, s.openCallbacks, s.openTools, s.run,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close ends what is open, the last of it first: what answers others, then hooks,
// browsers and boxes, and then the log of what they did. It waits until all of it has
// ended. A second call does nothing.
func (s *Server) Close() {
	_ = s.opened.Close() // each step logs what fails
	if s.started {
		s.started = false
		s.Log.Info("the server has stopped", "pid", os.Getpid())
	}
}

// MCP is the server with all tools; nil if Config did not ask for tools.
func (s *Server) MCP() *mcp.Server { return s.mcp }

// Sandbox opens boxes.
func (s *Server) Sandbox() *sandbox.Supervisor { return s.sandbox }

// Hooks are the hooks; nil if Config did not ask for any.
func (s *Server) Hooks() *hooks.Set { return s.flow.hooks }

// JobOver is sent to at the end of a background job, unless it is full.
func (s *Server) JobOver() <-chan struct{} { return s.flow.jobOver }

// openPolicy finds the workspace and the policy for it.
func (s *Server) openPolicy(context.Context) (err error) {
	if s.Workspace, err = config.FindWorkspace(s.cfg.Workspace); err != nil {
		return err
	}
	if s.PolicyName, s.Policy, err = config.FindPolicy(s.cfg.Policy, s.Workspace); err != nil {
		return err
	}
	s.gate = &gate{mode: s.cfg.Mode}
	s.gate.now.Store(s.Policy)
	return nil
}

// openState finds the directory for what outlives the program. No box may see it: what
// it holds is believed, and its sockets answer whoever reaches them, through a read-only
// mount as well. The user's own one is done without where it cannot be used.
func (s *Server) openState(context.Context) error {
	state, err := config.FindState(s.cfg.State)
	if err == nil {
		err = config.Unseen(state, s.Workspace, s.Policy)
	}
	if err == nil {
		err = config.Writable(state)
	}
	switch {
	case err == nil:
		s.State = state
	case s.cfg.State != "":
		return err
	case state != "":
		s.Log.Warn("nothing is kept beyond the end of this program; name another directory with --state", "err", err)
	}
	s.books.kept = store.Config{Store: store.New(s.State), Place: s.Workspace, Self: processName(os.Getpid()), Alive: alive, Log: s.Log}
	s.opened.Do(func() {
		if err := s.books.kept.Store.Close(); err != nil {
			s.Log.Error("the state was not closed", "err", err)
		}
	})
	return nil
}

// openSandbox opens the supervisor of boxes. A command needs its first box at once. A
// server that stays answers its client first, see preparing.
func (s *Server) openSandbox(context.Context) error {
	spool, err := s.host.spool()
	if err != nil {
		return err
	}
	cfg := sandbox.Config{Workspace: s.Workspace, State: s.State, Spool: spool, Shared: s.flow.shared, Checkpoints: s.cfg.Checkpoints, Secret: s.host.secret, Log: s.Log}
	if s.audit != nil {
		cfg.Egress = s.audit.egress
	}
	if s.sandbox, err = sandbox.New(cfg); err != nil {
		return unprepared(err)
	}
	s.host.sandbox = s.sandbox
	s.opened.Do(func() { s.sandbox.Close() })
	if s.cfg.Service == nil {
		return prepare(s.sandbox)
	}
	return nil
}

// prepare makes what all boxes need, unless that is done.
func prepare(s *sandbox.Supervisor) error {
	if err := s.Prepare(); err != nil {
		return unprepared(err)
	}
	return nil
}

func unprepared(err error) error {
	return fmt.Errorf("open the sandbox: %w; `belljar doctor` says what this host lacks and how to fix it", err)
}

// openTools makes the MCP server with all tools.
func (s *Server) openTools(context.Context) error {
	if s.cfg.Tools == nil {
		return nil
	}
	s.books.open(s.Place, s.flow.jobEnded)
	seen := &sessions{audit: s.audit, flow: &s.flow, books: &s.books, resumes: s.cfg.Service != nil, log: s.Log}
	cfg := mcp.Config{
		Name:         "belljar",
		Version:      buildinfo.Version(),
		Instructions: "A shell in a sandbox. /workspace is the project; the network is closed, except for what the policy opens. A refusal says why and what to do instead.",
		Gate:         s.gate,
		Tenant:       s.Tenant,
		HTTP:         mcp.HTTP{Auth: s.gate, Guarded: true}, // by the front
		Redact:       audit.Clean,
		Suite:        s.cfg.Tools.Suite,
		Structured:   s.cfg.Tools.Structured,
		TrustClients: s.cfg.Tools.TrustClients,
		Log:          s.Log,
		OnSession:    seen.began,
		OnSessionEnd: seen.ended,
	}
	// An interface that holds a nil pointer is not nil.
	if s.audit != nil {
		cfg.Audit = s.audit
	}
	if s.cfg.http() {
		cfg.SSE = s.cfg.Service.SSE
	}
	if s.cfg.http() && s.State != "" {
		cfg.Kept = websession.NewBook(s.books.kept)
	}
	if s.flow.around != nil {
		cfg.Around = s.flow.around
	}
	if s.approver != nil {
		cfg.Approver = s.approver
	}
	if t := traced(s.tracer, s.monitor); t != nil {
		cfg.Trace = t
	}
	var err error
	if s.mcp, err = mcp.New(cfg); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	backends := tools.Backends{
		Sandbox: s.sandbox.Home(), Search: s.search, Reader: s.reading.reader, Browser: s.reading.chrome, Checkpoints: s.cfg.Checkpoints, Log: s.Log,
		Todos: s.books.todos, Made: s.books.kept.Store.Made, CheckCommands: approval.CheckCommands,
		Plans: s.books.plans, Jobs: s.books.jobs, Skills: s.flow.skills, Callbacks: s.flow.callbacks, Aside: s.flow.aside,
	}
	if s.audit != nil {
		backends.Record = s.audit.record
	}
	if s.approver != nil {
		backends.Approvals = s.approver
		backends.Questions = asker{s.approver.questions, s.approver}
	}
	s.operator = tools.Add(s.mcp, backends)
	return nil
}
