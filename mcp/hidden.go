package mcp

import "belljar.dev/policies"

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

// Narrow puts a layer below the policy for the calls of this session, in place of the
// one before; nil removes it. Calls that run already are not affected. A layer can
// only be stricter than the policy.
func (s *Session) Narrow(l *policies.Layer) {
	before := s.layer.Swap(l)
	if before == l {
		return
	}
	s.server.tools.announceIf(func(tool string) bool { return before.Hidden(tool) != l.Hidden(tool) })
}

// Narrowed returns the name of the layer that Narrow put below the policy; empty
// without one.
func (s *Session) Narrowed() string {
	if l := s.layer.Load(); l != nil {
		return l.Name()
	}
	return ""
}
