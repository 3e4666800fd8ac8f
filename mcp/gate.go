package mcp

import "belljar.dev/policies"

// Gate decides whether a call may run and what it may use. *policies.Policy is a Gate; the
// Gate of internal/server uses the policy that is loaded at the time. A Gate must be safe
// for concurrent use.
type Gate interface {
	Decide(policies.Facts) policies.Decision
}

// Gated is the input type of every tool: its Facts state what the call would touch. This
// package fills in Tenant, Session, Tool, ToolNames, Upstream, Args and Annotations.
type Gated interface {
	Facts() policies.Facts
}

// show writes what policies see of the tool into the facts of a call.
func (t *tool) show(f *policies.Facts) {
	f.Tool, f.ToolNames, f.Annotations, f.Upstream = t.info.Name, t.names, t.hints, ""
	if t.upstream != nil {
		f.Upstream = t.upstream.name
	}
}

// If no call of a tool can be allowed, tools/list leaves the tool out, because an agent
// does not plan with a tool that it does not see. A call of the tool is denied, whatever
// its arguments are. It is not answered as unknown, because the agent may remember the
// tool, and the refusal names whom to ask.

// Hider is a Gate that knows which tools to hide from a tenant.
type Hider interface {
	// Hidden reports whether every call of a tool by a tenant would be denied. The facts
	// contain only Tenant, Tool, ToolNames, Upstream and Annotations.
	Hidden(policies.Facts) bool
}
