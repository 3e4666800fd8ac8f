package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"belljar.dev/internal/closers"
	"belljar.dev/internal/config"
	"belljar.dev/internal/console"
	"belljar.dev/internal/fleet"
	"belljar.dev/internal/fleet/bus"
	"belljar.dev/internal/front"
	"belljar.dev/internal/hooks"
	"belljar.dev/internal/store"
	"belljar.dev/internal/toolkit"
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/search"
)

// Place contains what the names on a command line lead to. It is immutable once a Server is
// open.
type Place struct {
	Workspace  string           // path of the workspace, absolute and without symbolic links
	PolicyName string           // name of the policy, for people
	Policy     *policies.Policy // policy at the start
	State      string           // directory for what outlives the program; empty if none can be used
	Tenant     string           // tenant of the calls that come without a token
	Log        *slog.Logger
}

// Server contains what a command works with: what the places of one process share, and the
// places. The embedded Place is that of --workspace.
type Server struct {
	Place
	cfg    Config
	opened closers.Stack

	gate  *gate // gate of the place of --workspace, which also decides for what all places share
	kept  *store.Store
	login *login // login of clients over HTTP
	listeners
	audit    *ledger // nil if no log is kept
	host     *host
	skills   skillFolders
	sandbox  *sandbox.Supervisor
	reading  reading
	search   *search.Fan
	tracer   *tracer  // nil if no calls are traced
	monitor  *monitor // nil without an admin listener
	ways     *ways    // ways of asking people; nil if nobody is asked
	places   *places
	home     *place // place of --workspace
	reloader *reloader
	started  bool // whether the start of the server was logged
}

// listeners contains the open ports of a server.
type listeners struct {
	front   *front.Front     // port for clients; nil over stdio
	console *console.Console // console for people; nil without a console
	counts  *callCounts      // numbers of calls for the console; nil without a console
	part    *console.Part    // part for the consoles at the fronts of the fleet; nil if they show nothing
	fleet   *fleet.Front     // front of a fleet, for its workers; nil in other servers
	shared  *bus.Bucket      // bucket of the policy that the fronts of a fleet share; nil for a single front
}

// Open opens everything that a command needs. The caller closes the server; if Open returns
// an error, nothing is left open. When ctx ends, a server asks people no more questions,
// and does not read its policy again.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{cfg: cfg}
	s.Tenant, s.Log = cmp.Or(cfg.Tenant, policies.LocalTenant), cfg.Log
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// open opens the parts in a fixed order: each step may use the parts of the steps before
// it. A step that opens something immediately registers how it is closed.
func (s *Server) open(ctx context.Context) error {
	if s.cfg.routes() {
		return openRoutes(ctx, s)
	}
	for _, step := range []func(context.Context) error{
		s.openPolicy, s.openState, s.openTenants, s.openMonitor, s.openFront, func(ctx context.Context) error { return openConsole(ctx, s) }, s.openLedger, s.openHost, s.openSkills, s.openSandbox, s.openReading, s.openSearch,
		s.begin, s.openTracer, s.openWays, s.openPlaces, s.run,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// openRoutes is Server.open for a front of a fleet. It opens no box and no place.
func openRoutes(ctx context.Context, s *Server) error {
	for _, step := range []func(context.Context) error{
		s.openPolicy, s.openState, s.openTenants, s.openMonitor, s.openFront, func(ctx context.Context) error { return openConsole(ctx, s) }, s.openLedger, s.begin,
		func(ctx context.Context) error { return openFleet(ctx, s) }, func(ctx context.Context) error { return runRoutes(ctx, s) },
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close closes what is open, in the reverse order: first what answers clients and commands,
// then hooks, browsers and boxes, and then the log of what they did. It waits until
// everything has ended. A second call does nothing.
func (s *Server) Close() {
	_ = s.opened.Close() // each step logs its error
	if s.started {
		s.started = false
		s.Log.Info("the server has stopped", "pid", os.Getpid())
	}
}

// MCP returns the server with all tools, in the place of --workspace; nil if Config has no
// Tools.
func (s *Server) MCP() *mcp.Server { return s.home.mcp }

// Sandbox returns the supervisor, which opens boxes.
func (s *Server) Sandbox() *sandbox.Supervisor { return s.sandbox }

// Hooks returns the hooks in the place of --workspace; nil if Config has no Hooks.
func (s *Server) Hooks() *hooks.Set { return s.home.flow.hooks }

// JobOver returns a channel that receives a value at the end of a background job, unless a
// value already waits in it.
func (s *Server) JobOver() <-chan struct{} { return s.home.flow.jobOver }

// Decide decides by the policy of the place of --workspace, and records the decision. It
// returns the ID of the call.
func (s *Server) Decide(ctx context.Context, f policies.Facts) (policies.Decision, string, error) {
	return s.home.decide(ctx, f)
}

// openPolicy finds the workspaces and the policy for them.
func (s *Server) openPolicy(context.Context) (err error) {
	at := &site{named: make(map[string]string), http: s.cfg.http(), routes: s.cfg.routes()}
	if s.cfg.linked() {
		if at.workdir, err = openWorkdir(s.cfg.Service.Link.Places, s.cfg.Service.Link.Name); err != nil {
			return err
		}
		s.opened.Do(at.workdir.close)
		s.cfg.Workspace, s.cfg.State = filepath.Join(at.workdir.dir, workdirHome), filepath.Join(at.workdir.dir, workdirState)
	}
	if !at.routes {
		if s.Workspace, err = config.FindWorkspace(s.cfg.Workspace); err != nil {
			return err
		}
	}
	at.home = s.Workspace
	for name, dir := range s.cfg.Places {
		if at.named[name], err = config.FindPlace(dir, "with --place"); err != nil {
			return fmt.Errorf("--place %s: %w", name, err)
		}
	}
	if s.cfg.fleetPolicy() {
		state, err := config.FindState(s.cfg.State)
		if err != nil {
			return err
		}
		if at.fleetPolicies, s.cfg.Policy, err = openFleetPolicies(state, s.cfg.Policy); err != nil {
			return err
		}
	}
	l, err := at.read(s.cfg.Policy)
	if err != nil {
		return at.fleetPolicies.broken(err)
	}
	s.PolicyName, s.Policy = l.set.Name, l.policy()
	s.places = newPlaces(s, l)
	s.gate = gateOf(s, s.Workspace, s.Policy)
	if at.workdir != nil {
		return openMoves(s, at.workdir)
	}
	return nil
}

// openState finds the directory for what outlives the program. No box may see it: its
// contents are trusted, and its sockets answer every process that reaches them, also
// through a read-only mount. If the user's own directory cannot be used, the server runs
// without one.
func (s *Server) openState(context.Context) error {
	state, err := config.FindState(s.cfg.State)
	if err == nil && !s.cfg.routes() { // a front of a fleet opens no box
		err = config.Unseen(state, s.workspaces(), s.Policy)
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
		s.Log.Warn("nothing is kept after this program ends; name another directory with --state", "err", err)
	}
	s.kept = store.New(s.State)
	s.opened.Do(func() {
		if err := s.kept.Close(); err != nil {
			s.Log.Error("the state was not closed", "err", err)
		}
	})
	return nil
}

// openSandbox opens the supervisor of boxes. A command needs its first box immediately. A
// server that keeps running answers its first client before boxes are prepared, see
// preparing.
func (s *Server) openSandbox(context.Context) error {
	spool, err := s.host.spool()
	if err != nil {
		return err
	}
	cfg := sandbox.Config{Workspace: s.Workspace, State: s.State, Spool: spool, Shared: s.skills.shared, Checkpoints: s.cfg.Checkpoints, Secret: s.host.secret, Log: s.Log}
	if s.cfg.toolkitIn(s.gate) {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program for the boxes: %w", err)
		}
		cfg.Shared = append(slices.Clip(cfg.Shared), policies.Mount{Source: self, Target: toolkit.Program})
	}
	if s.cfg.Service != nil {
		cfg.Before = s.cfg.Service.Inherited.Ended()
	}
	if s.cfg.tenanted() {
		cfg.Boxes = mostBoxes(openFiles())
	}
	if s.audit != nil {
		cfg.Egress = s.audit.egress
	}
	if s.sandbox, err = sandbox.New(cfg); err != nil {
		return unprepared(err)
	}
	s.host.sandbox = s.sandbox
	s.opened.Do(func() { s.sandbox.Close() })
	if s.cfg.Service == nil {
		return prepare(s)
	}
	return nil
}

// openPlaces opens the place of --workspace, and what notifies people of questions. The
// other places are opened while the server runs.
func (s *Server) openPlaces(ctx context.Context) (err error) {
	// When ctx ends, a call that waits for a person returns immediately, and reports that
	// it waits.
	forget := context.AfterFunc(ctx, s.places.stopAsking)
	s.opened.Do(func() {
		forget()
		s.places.close()
	})
	if s.home, err = s.places.at(ctx, s.Workspace); err != nil {
		return err
	}
	return s.ways.begin(ctx, s)
}
