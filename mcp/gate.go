package mcp

import "belljar.dev/policies"

// Gate decides whether a call may run and what it may use. *policies.Policy is one; that of
// internal/server asks the policy that holds now. A Gate must be safe for concurrent use.
type Gate interface {
	Decide(policies.Facts) policies.Decision
}

// Gated is the input type of every tool: it tells the policy what the call would
// touch. This package fills in Tenant, Session, Tool, ToolNames, Upstream, Args and
// Annotations.
type Gated interface {
	Facts() policies.Facts
}

// show puts what policies see of the tool into the facts of a call.
func (t *tool) show(f *policies.Facts) {
	f.Tool, f.ToolNames, f.Annotations, f.Upstream = t.info.Name, t.names, t.hints, ""
	if t.upstream != nil {
		f.Upstream = t.upstream.name
	}
}

// If no call of a tool can be allowed, tools/list leaves the tool out: an agent does
// not plan with a tool that it does not see. A call of the tool is denied, whatever its
// arguments, and not answered as unknown: the agent may remember the tool, and the
// refusal says whom to ask.

// Hider is a Gate that knows which tools a tenant need not see.
type Hider interface {
	// Hidden reports whether no call of a tool by a tenant can be allowed or asked about.
	// The facts are Tenant, Tool, ToolNames, Upstream and Annotations, and no others.
	Hidden(policies.Facts) bool
}
