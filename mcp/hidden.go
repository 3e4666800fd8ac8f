package mcp

import (
	"context"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/policies"
)

// If no call of a tool can be allowed, tools/list leaves the tool out: an agent does
// not plan with a tool that it does not see. A call of the tool is denied, whatever its
// arguments, and not answered as unknown: the agent may remember the tool, and the
// refusal says whom to ask.

// Hider is a Gate that knows which tools a tenant need not see.
type Hider interface {
	// Hidden reports whether no call of the tool by the tenant can be allowed
	// or asked about.
	Hidden(tenant, tool string) bool
}

// hides reports whether a tool is hidden from a session.
func (s *Server) hides(session *Session, tool string) bool {
	if l := session.layer.Load(); l != nil && l.Hidden(tool) {
		return true
	}
	return s.hidesFrom(session.tenant, tool)
}

func (s *Server) hidesFrom(tenant, tool string) bool {
	h, ok := s.cfg.Gate.(Hider)
	return ok && h.Hidden(tenant, tool)
}

// shown returns a list of tools with their schemas, without the tools that are
// hidden from the caller. meta is the request's _meta.
func (s *Server) shown(ctx context.Context, ss *sdk.ServerSession, meta sdk.Meta, r *sdk.ListToolsResult) *sdk.ListToolsResult {
	hides := func(tool string) bool { return s.hidesFrom(s.tenantOf(ctx), tool) }
	session, err := s.sessionOf(ctx, ss)
	if err == nil {
		hides = func(tool string) bool { return s.hides(session, tool) }
	}
	out := *r
	out.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(t *sdk.Tool) bool { return hides(t.Name) })
	if out.Tools == nil {
		out.Tools = []*sdk.Tool{}
	}
	structured := s.structures(session, meta)
	for i, t := range out.Tools {
		out.Tools[i] = s.withSchemas(t, structured)
	}
	return &out
}

// relist notifies clients to list the tools again, if the set of hidden tools has
// changed since its last call.
func (s *Server) relist() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, changed := make(map[string]string), false
	for session := range s.sessions {
		if _, done := now[session.tenant]; !done {
			now[session.tenant] = s.hiddenFrom(session.tenant)
			changed = changed || now[session.tenant] != s.hidden[session.tenant]
		}
	}
	s.hidden = now
	if changed {
		s.announce()
	}
}

// hiddenFrom are the tools that are hidden from a tenant; mu is held.
func (s *Server) hiddenFrom(tenant string) string {
	hidden := slices.DeleteFunc(sortedKeys(s.tools), func(tool string) bool { return !s.hidesFrom(tenant, tool) })
	return strings.Join(hidden, " ")
}

// announce makes the sdk send notifications/tools/list_changed to each client that
// wants it. The caller holds mu. The sdk sends it when a tool is added; adding a
// tool that it has already changes nothing else.
func (s *Server) announce() {
	for _, name := range sortedKeys(s.tools) {
		s.sdk.AddTool(sdkTool(s.tools[name].info), s.sdkCall)
		return
	}
}

// Narrow puts a layer below the policy for the calls of this session, in place of the
// one before; nil removes it. Calls that run already are not affected. A layer can
// only be stricter than the policy.
func (s *Session) Narrow(l *policies.Layer) {
	before := s.layer.Swap(l)
	if before == l {
		return
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	for tool := range s.server.tools {
		if before.Hidden(tool) != l.Hidden(tool) {
			s.server.announce()
			return
		}
	}
}

// Narrowed returns the name of the layer that Narrow put below the policy; empty
// without one.
func (s *Session) Narrowed() string {
	if l := s.layer.Load(); l != nil {
		return l.Name()
	}
	return ""
}

// judge returns the decision of the policy and of the session's own layer.
func (s *Server) judge(session *Session, f policies.Facts) policies.Decision {
	d := s.cfg.Gate.Decide(f)
	if l := session.layer.Load(); l != nil {
		d = l.Narrow(d, f)
	}
	return d
}
