package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"belljar.dev/policies"
)

// Config is the configuration of a Server. The zero value of each field but Gate
// is the default that its comment names.
type Config struct {
	Gate         Gate   // required: a server needs a policy
	Name         string // serverInfo.name; "belljar"
	Version      string // serverInfo.version; "dev"
	Instructions string // for the agent, sent with the handshake; default none
	Tenant       string // whose calls these are; "local"
	Audit        Audit  // records each call; nil records nothing
	Trace        Tracer // traces each call that has ended; nil traces nothing
	// Approver asks people where the policy says ask; without it that is a denial.
	Approver Approver
	// Around is called before and after each call that the policy allows; nil is not called.
	Around Around
	// Redact removes from a text what a policy wants removed from results. It is called
	// from many goroutines. Without it, calls that need it are refused.
	Redact func(text string, what []policies.Redaction) string
	Limits Limits // see there
	// Structured gives every client structured results and output schemas beside
	// the texts, not only those that ask for them.
	Structured bool
	// TrustClients accepts a client's answer that came sooner than a person can read the
	// question. Without it such an answer counts as nobody's.
	TrustClients bool
	// Patience is how long clients are expected to wait for a call; 45 s. Common
	// clients give up after 60 s.
	Patience time.Duration
	Log      *slog.Logger // nil logs nothing
	// StrictInit refuses requests that come after initialize and before the
	// client's initialized notification; by default they are served.
	StrictInit bool
	HTTP
	// Key seals the states that modern clients carry from one call to the next: another
	// process with this key takes them. It has at least 32 bytes; nil for one at random.
	Key []byte
	// Suite adds what the protocol's conformance suite calls by name; nil adds nothing.
	Suite Suite
	Moments
}

// Moments are functions that are called in the life of a session; nil ones are not.
type Moments struct {
	// OnSession is called when a session opens, before its first call, and
	// OnSessionEnd after its last one has returned. ctx ends with the session.
	OnSession    func(ctx context.Context, s *Session)
	OnSessionEnd func(s *Session)
	// Gather is called before the tools of a session are listed, and if a session calls a
	// tool that is not there. The client waits, and is offered what SetRemotes has by then.
	Gather func(ctx context.Context, s *Session)
}

// HTTP is what a server over HTTP has beside that.
type HTTP struct {
	Auth Authenticator // finds out the callers; nil means Tenant for all
	// Guarded says that whoever mounts the handler has checked the headers Host and
	// Origin of each request, see package origin, and bounds the time in which its body
	// comes. By default the handler does both, and knows the names of loopback only.
	Guarded bool
	// Shared is what this server counts together with others of the process; nil for
	// nothing.
	Shared  *Shared
	Kept    SessionBook // keeps sessions beyond the end of the server; nil keeps none
	SSE     bool        // serve HTTP with SSE as well, the transport of revision 2024-11-05
	Sockets bool        // serve WebSockets as well
	// Tickets are those of pages. Servers of one process share them; nil for some of its own.
	Tickets *Tickets
	// MarkNotStarted marks a refusal of a server that is stopping: no part of the request ran, so it
	// may be sent to the next server. Nil marks nothing.
	MarkNotStarted func(answer http.Header)
}

// Server offers tools and resources to MCP clients over stdio and HTTP. Its methods are
// safe for concurrent use, except that AddTool, AddResource, AddRemoteResources and
// AddPrompts must come before the first ServeStdio, Handler or Call. Shutdown ends it.
type Server struct {
	cfg           *Config
	tools         *toolset
	resources     *resources
	prompts       *prompts
	gate          *callGate
	sealer        *sealer
	subscriptions *subscriptions
	deferrals     *deferrals
	sessions      *sessionTable
	web           *webSessions
	adapter       *adapter
	routed        *web            // for HandlerOf
	serverInfo    json.RawMessage // name and version of the server, in each modern answer
}

// New makes a Server without tools. It fails if a field of cfg cannot be used, and
// names the field.
func New(cfg Config) (*Server, error) {
	if cfg.Gate == nil {
		return nil, errors.New("mcp: Config.Gate is missing: a server needs a policy")
	}
	cfg.Limits = cfg.Limits.withDefaults()
	cfg.Name = cmp.Or(cfg.Name, "belljar")
	cfg.Version = cmp.Or(cfg.Version, "dev")
	cfg.Tenant = cmp.Or(cfg.Tenant, "local")
	cfg.Patience = cmp.Or(cfg.Patience, 45*time.Second)
	if cfg.Tickets == nil {
		cfg.Tickets = NewTickets()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Shared == nil {
		cfg.Shared = NewShared(0)
	}
	s := &Server{cfg: &cfg}
	var err error
	if s.serverInfo, err = json.Marshal(map[string]string{"name": cfg.Name, "version": cfg.Version}); err != nil {
		return nil, err // cannot be: a map of texts
	}
	s.sessions = newSessionTable(&cfg)
	s.tools = newToolset(cfg.Gate, s.sessions.tenants)
	s.tools.news = &announcer{enter: s.sessions.enter, leave: s.sessions.wg.Done, announce: s.tools.announceChange}
	s.sealer = newSealer(cfg.Key)
	s.gate = &callGate{cfg: &cfg, tools: s.tools, sealer: s.sealer, meter: newMeter(time.Now)}
	s.resources = &resources{cfg: &cfg, gate: s.gate, byTemplate: make(map[string]*Resource)}
	s.prompts = &prompts{cfg: &cfg, gate: s.gate}
	s.deferrals = newDeferrals(&cfg, s.sessions)
	s.web = newWebSessions(s)
	s.adapter = newAdapter(s)
	s.tools.offer = s.adapter.offerTool
	s.routed = s.newWeb()
	s.subscriptions = newSubscriptions(&cfg, s.sessions, s.adapter.sdk)
	if cfg.Suite != nil {
		cfg.Suite.Register(s, s.adapter.sdk)
	}
	return s, nil
}

// ToolInfo is a registered tool and the schemas of its input and output. OutputSchema
// goes to clients that ask for structured results: the members and their types.
// ResultSchema describes these in full. Both are empty if the tool has no structured
// result.
type ToolInfo struct {
	Tool
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	ResultSchema json.RawMessage
}

// Tools returns the registered tools, sorted by name.
func (s *Server) Tools() []ToolInfo { return s.tools.all() }

// Describe changes the description of a tool, and notifies clients to list the
// tools again. It reports whether the description is a different one.
func (s *Server) Describe(name, description string) (changed bool) {
	return s.tools.describe(name, description)
}

// SetRemotes replaces the tools of an upstream for a tenant; without tools and without a
// note, the upstream is forgotten. Calls that run go on. If the list has changed, clients
// are notified soon, and at most announceMost times in a minute. The result says of each
// tool that cannot be offered why not; the others are offered. A tool keeps its name until
// its upstream is replaced. Tools of the server itself keep theirs for ever.
func (s *Server) SetRemotes(name string, r Remotes) (refused []error) {
	u, refused := newUpstream(name, r)
	if r.Search != "" {
		if err := u.addSearch(r.Search, s.gate.hides); err != nil {
			refused = append(refused, err)
		}
	}
	return append(refused, s.tools.setRemotes(cmp.Or(r.Tenant, s.cfg.Tenant), u)...)
}

// Shutdown ends the server. Connections take no new requests and end when their running
// ones have been answered. After Limits.Drain, or when ctx ends, what still runs is
// cancelled. Shutdown returns when every session is over, with the error of ctx if that
// ended first. It may be called twice.
func (s *Server) Shutdown(ctx context.Context) error {
	s.sessions.refuseNew()
	s.tools.news.stop()
	s.web.endAll(ctx)
	return s.sessions.wait(ctx)
}

// End ends the sessions that which chooses, and returns those that it has ended. It
// cancels their calls with why as the cause, waits for them, and then calls the
// functions of OnEnd. A connection over stdio, and with it ServeStdio, ends with its
// session; a client over HTTP can begin another session.
func (s *Server) End(which func(SessionInfo) bool, why string) []SessionInfo {
	cause := ErrEnded
	if why != "" {
		cause = fmt.Errorf("%w: %s", ErrEnded, why)
	}
	ended := []SessionInfo{}
	var ending sync.WaitGroup // together: each may wait for a call that takes its time
	for _, session := range s.sessions.chosen(which) {
		ended = append(ended, session.info())
		s.web.remember(endedSession{session.id, session.owner, cause})
		ending.Go(func() { session.close(cause) })
	}
	ending.Wait()
	return ended
}

// Reloaded is to be called after the answers of Gate or Auth have changed. Where the
// set of tools that is hidden from a tenant is another one now, its clients are
// notified to list the tools again. Tenants get their new limits, and the streams of
// callers who would not be let in any more end.
func (s *Server) Reloaded() {
	s.web.callers.recheck()
	s.sessions.reload()
	s.tools.relist()
}

// forget removes what the parts of the server keep for a session that has ended.
func (s *Server) forget(session *Session) {
	s.sessions.remove(session)
	s.subscriptions.forget(session)
	s.tools.changes.forget(session)
	s.deferrals.forget(session)
}
