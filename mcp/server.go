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

// Config is the configuration of a Server. The comment of each field names the default for
// its zero value; only Gate is required.
type Config struct {
	Gate         Gate   // required: a server needs a policy
	Name         string // serverInfo.name; default "belljar"
	Version      string // serverInfo.version; default "dev"
	Instructions string // text for the agent, sent with the handshake; default none
	Tenant       string // tenant of callers without an Authenticator; default "local"
	Audit        Audit  // records each call; nil records nothing
	Trace        Tracer // traces each call that has ended; nil traces nothing
	// Approver asks people if the policy's verdict is ask. Without an Approver, ask is a
	// denial.
	Approver Approver
	// Around is called before and after each call that the policy allows; it may be nil.
	Around Around
	// Redact removes from a text what the policy redacts in results. It is called from many
	// goroutines. If it is nil, calls whose results must be redacted are refused.
	Redact func(text string, what []policies.Redaction) string
	Limits Limits // bounds of what one client can use
	// Structured gives every client structured results and output schemas in addition to
	// the texts, not only the clients that ask for them.
	Structured bool
	// TrustClients accepts a client's answer that arrived sooner than a person can read the
	// question. By default such an answer is ignored: no person can have given it.
	TrustClients bool
	// Patience is how long clients are expected to wait for a call; default 45 s. Common
	// clients give up after 60 s.
	Patience time.Duration
	Log      *slog.Logger // nil logs nothing
	// StrictInit refuses requests that arrive after initialize and before the client's
	// initialized notification; by default they are served.
	StrictInit bool
	HTTP
	// Key seals the states that modern clients carry from one call to the next. Another
	// process with the same key accepts these states. Key has at least 32 bytes; nil stands
	// for a random key.
	Key []byte
	// Suite adds the tools and prompts that the protocol's conformance suite calls by name;
	// nil adds nothing.
	Suite Suite
	Moments
}

// Moments are functions that are called at points in the life of a session; each may be
// nil.
type Moments struct {
	// OnSession is called when a session opens, before its first call, and
	// OnSessionEnd after its last one has returned. ctx ends with the session.
	OnSession    func(ctx context.Context, s *Session)
	OnSessionEnd func(s *Session)
	// Gather is called before the tools of a session are listed, and if a session calls a
	// tool that does not exist. The client waits, and is offered the tools that SetRemotes
	// has set when Gather returns.
	Gather func(ctx context.Context, s *Session)
}

// HTTP is the additional configuration of a server over HTTP.
type HTTP struct {
	Auth Authenticator // identifies the callers; nil means Tenant for all callers
	// Guarded reports that the code that mounts the handler checks the headers Host and
	// Origin of each request (see package origin), and bounds the time in which the
	// request's body arrives. By default the handler does both, and accepts the names of
	// loopback only.
	Guarded bool
	// Shared contains the quotas that this server shares with other servers of the process;
	// nil shares none.
	Shared  *Shared
	Kept    SessionBook // keeps sessions beyond the end of the server; nil keeps none
	SSE     bool        // serve HTTP with SSE as well, the transport of revision 2024-11-05
	Sockets bool        // serve WebSockets as well
	// Tickets are the tickets of pages. Servers of one process share them; nil gives this
	// server its own.
	Tickets *Tickets
	// MarkNotStarted marks a refusal of a server that is stopping: no part of the request
	// ran, so the request may be sent to the next server. Nil marks nothing.
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
	subscriptions *subscriptions
	deferrals     *deferrals
	sessions      *sessionTable
	web           *webSessions
	adapter       *adapter
	routed        *web            // for HandlerOf
	serverInfo    json.RawMessage // name and version of the server, part of each modern answer
}

// New returns a Server without tools. It fails if a field of cfg is not valid, and names
// the field.
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
		return nil, err // cannot happen: a map of strings can be marshalled
	}
	s.sessions = newSessionTable(&cfg)
	s.tools = newToolset(cfg.Gate, s.sessions.tenants)
	s.tools.news = &announcer{enter: s.sessions.enter, leave: s.sessions.wg.Done, announce: s.tools.announceChange}
	s.gate = &callGate{cfg: &cfg, tools: s.tools, sealer: newSealer(cfg.Key), meter: newMeter(time.Now)}
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

// ToolInfo is a registered tool and the schemas of its input and output. OutputSchema goes
// to clients that ask for structured results, and contains the members and their types.
// ResultSchema describes the same results in full. Both are empty if the tool has no
// structured result.
type ToolInfo struct {
	Tool
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	ResultSchema json.RawMessage
}

// Tools returns the registered tools, sorted by name.
func (s *Server) Tools() []ToolInfo { return s.tools.all() }

// Describe changes the description of a tool, and notifies clients to list the tools again.
// It reports whether the new description differs from the old one.
func (s *Server) Describe(name, description string) (changed bool) {
	return s.tools.describe(name, description)
}

// SetRemotes replaces the tools of an upstream for a tenant; without tools and without a
// note, the upstream is removed. Running calls continue. If the list has changed, clients
// are notified soon, and at most announceMost times a minute. For each tool that cannot be
// offered, the result has an error with the reason; the other tools are offered. A tool
// keeps its name until its upstream is replaced. Tools of the server itself keep their
// names for ever.
func (s *Server) SetRemotes(name string, r Remotes) (refused []error) {
	u, refused := newUpstream(name, r)
	if r.Search != "" {
		if err := u.addSearch(r.Search, s.gate.hides); err != nil {
			refused = append(refused, err)
		}
	}
	return append(refused, s.tools.setRemotes(cmp.Or(r.Tenant, s.cfg.Tenant), u)...)
}

// Shutdown ends the server. Connections accept no new requests, and end when their running
// requests have been answered. After Limits.Drain, or when ctx ends, the calls that still
// run are cancelled. Shutdown returns when every session is over; it returns the error of
// ctx if ctx ended first. It may be called twice.
func (s *Server) Shutdown(ctx context.Context) error {
	s.sessions.refuseNew()
	s.tools.news.stop()
	s.web.endAll(ctx)
	return s.sessions.wait(ctx)
}

// End ends the sessions for which the function which returns true, and returns the sessions
// that it has ended. It cancels their calls with why as the cause, waits for them, and then
// calls the functions of OnEnd. A connection over stdio, and with it ServeStdio, ends with
// its session; a client over HTTP can begin another session.
func (s *Server) End(which func(SessionInfo) bool, why string) []SessionInfo {
	cause := ErrEnded
	if why != "" {
		cause = fmt.Errorf("%w: %s", ErrEnded, why)
	}
	ended := []SessionInfo{}
	var ending sync.WaitGroup // the sessions end at the same time, since each may wait for a slow call
	for _, session := range s.sessions.chosen(which) {
		ended = append(ended, session.info())
		s.web.remember(endedSession{session.id, session.owner, cause})
		ending.Go(func() { session.close(cause) })
	}
	ending.Wait()
	return ended
}

// Reloaded must be called after the answers of Gate or Auth have changed. If the set of
// tools that is hidden from a tenant has changed, the tenant's clients are notified to list
// the tools again. Tenants get their new limits, and the streams of callers that would be
// refused now end.
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
