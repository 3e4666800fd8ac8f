package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// Gate decides whether a call may run and what it may use.
// *policies.Policy is one. It must be safe for concurrent use.
type Gate interface {
	Decide(policies.Facts) policies.Decision
}

// Gated is the input type of every tool: it tells the policy what the call would
// touch. This package fills in Tenant, Session, Tool, Args and Annotations.
type Gated interface {
	Facts() policies.Facts
}

// Config is the configuration of a Server. The zero value of each field but Gate
// is the default that its comment names.
type Config struct {
	Gate         Gate    // required: a server needs a policy
	Name         string  // serverInfo.name; "belljar"
	Version      string  // serverInfo.version; "dev"
	Instructions string  // for the agent, sent with the handshake; default none
	Tenant       string  // whose calls these are; "local"
	Tenants      Tenants // whose calls those over HTTP are; nil means Tenant for all
	Audit        Audit   // records each call; nil records nothing
	Trace        Tracer  // traces each call that has ended; nil traces nothing
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
	// Hosts are names besides the loopback ones that the HTTP handler answers
	// to in the Host header, without port. Without the check a web page could
	// reach a loopback server through a name of its own (DNS rebinding).
	Hosts []string
	// Fixtures adds the tools, resources and prompts that the protocol's conformance
	// suite calls by name. No server in use has them.
	Fixtures bool
	// OnSession is called when a session opens, before its first call, and
	// OnSessionEnd after its last one has returned. ctx ends with the session.
	OnSession    func(ctx context.Context, s *Session)
	OnSessionEnd func(s *Session)
}

// Server offers tools and resources to MCP clients over stdio and HTTP. Its methods are
// safe for concurrent use, except that AddTool, AddResource and AddPrompts must come
// before the first ServeStdio, Handler or Call. Shutdown ends it.
type Server struct {
	cfg   Config
	meter *meter
	sdk   *sdk.Server
	key   []byte         // seals what clients carry from one call to the next
	quit  chan struct{}  // closed by Shutdown
	wg    sync.WaitGroup // connections and HTTP sessions, until they are over

	tasks    map[string]*fixtureTask // of the conformance suite, by name
	keeper   Tasks                   // nil where all clients wait
	surveyor Surveyor                // nil where questions show what calls say, and no more

	mu        sync.Mutex
	tools     map[string]*tool      // guarded by mu
	resources map[string]*Resource  // guarded by mu: by template
	prompts   []PromptSource        // guarded by mu
	watches   watches               // guarded by mu
	listening listening             // guarded by mu
	deferred  map[string]*deferred  // guarded by mu: tasks whose calls run, by id
	sessions  map[*Session]struct{} // guarded by mu
	web       webSessions           // guarded by mu
	doors     map[string]*admission // guarded by mu: of tenants with limits of their own
	hidden    map[string]string     // guarded by mu: what was hidden from each tenant when clients were last told
	closing   bool                  // guarded by mu
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
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, key: make([]byte, 32), quit: make(chan struct{}),
		tools: make(map[string]*tool), sessions: make(map[*Session]struct{}),
		resources: make(map[string]*Resource), watches: newWatches(), listening: make(listening), deferred: make(map[string]*deferred),
		web: newWebSessions(), doors: make(map[string]*admission), hidden: make(map[string]string), meter: newMeter(time.Now),
	}
	_, _ = rand.Read(s.key) // which does not fail (crypto/rand)
	s.sdk = newSDK(s)
	s.addSearch()
	s.addTasks()
	if cfg.Fixtures {
		s.addFixtures()
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

// Tools are the registered tools, sorted by name.
func (s *Server) Tools() []ToolInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]ToolInfo, 0, len(s.tools))
	for _, name := range sortedKeys(s.tools) {
		t := s.tools[name]
		of := t.schemas()
		all = append(all, ToolInfo{t.info, of.input, of.output, of.result})
	}
	return all
}

func (s *Server) addTool(t *tool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tools[t.info.Name] != nil {
		panic("mcp: add tool " + t.info.Name + ": there is one of this name already")
	}
	s.tools[t.info.Name] = t
	s.sdk.AddTool(sdkTool(t.info), s.sdkCall)
}

func (s *Server) tool(name string) (*tool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tools[name]
	return t, ok
}

func (s *Server) unknownTool(name string, hides func(tool string) bool) *wire.Error {
	s.mu.Lock()
	known := slices.DeleteFunc(sortedKeys(s.tools), hides)
	s.mu.Unlock()
	hint := "known tools: " + strings.Join(known, ", ")
	if near := nearest(name, known); near != "" {
		hint = fmt.Sprintf("did you mean %q? %s", near, hint)
	}
	return wire.Errorf(wire.InvalidParams, "unknown tool %.80q; %s", name, hint)
}

// Shutdown ends the server. Connections take no new requests and end when their running
// ones have been answered. After Limits.Drain, or when ctx ends, what still runs is
// cancelled. Shutdown returns when every session is over, with the error of ctx if that
// ended first. It may be called twice.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	s.mu.Unlock()
	if first {
		close(s.quit)
	}
	s.endWeb(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.wg.Wait()
	}()
	var err error
	select {
	case <-over:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	left := slices.Collect(maps.Keys(s.sessions))
	s.mu.Unlock()
	for _, session := range left {
		session.end(ErrShutdown)
	}
	<-over
	return err
}

// enter notes work that Shutdown must wait for, unless the server is closing already;
// the caller ends it with wg.Done.
func (s *Server) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return ErrShutdown
	}
	s.wg.Add(1)
	return nil
}

func (s *Server) forget(session *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session)
	s.unwatch(session)
	s.forgetDeferred(session)
}
