package mcp

import "belljar.dev/policies"

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
