package policies

import "time"

// Facts are what one call shows the policy. A tool fills in what its own arguments say
// (Command, Paths, Hosts, URLs, Args, Profile); the front end adds whose call it is and
// which tool was named (Tenant, Session, Tool). If a tool leaves a field empty, it says
// that the call does not touch such a thing, so a field may only be empty if that is true.
type Facts struct {
	Tenant  string // tenant whose work the call is
	Session string // session in which the call came
	Tool    string // name on the wire, for example "Bash"
	// ToolNames are further names of the tool of an upstream. Rules that deny or ask match
	// them as they match Tool, so that a rule still applies to a tool whose name has
	// changed. Rules that allow match only Tool: an upstream chooses the names of its
	// tools.
	ToolNames []string
	Profile   string // profile that the call asks for by name; empty for the policy's default

	// Scopes are what the caller's token may be used for, if that is less than what its
	// tenant may do; otherwise nil.
	Scopes []string

	Command string   // shell text, for tools that run commands
	Env     []string // names of the variables that the call sets for its command
	// Values are the values of the variables in Env, by name. A variable without an
	// entry may have any value.
	Values map[string]string
	Stdin  string   // input of the command
	Paths  []string // files that the call names, absolute as the box sees them
	Hosts  []string // hosts that the call names
	URLs   []string // URLs that the call names
	Acts   []Act    // what the call does with a browser

	// Exec is set if the facts are those of a program that is about to be started,
	// and not of a whole call: see Grant.DecideExec.
	Exec *Exec

	// Scene is the state that the command finds, for the question to a person; nil
	// if nobody is asked. No rule looks at it.
	Scene *Scene

	Args     map[string]any // all arguments as decoded, for conditions
	Upstream string         // proxied server of the tool; empty for our own tools
	// hints that the tool declares: readOnlyHint, destructiveHint, ...; with Upstream they
	// are claims of that server
	Annotations map[string]bool
	// time of the call, for conditions; if it is zero, conditions that look at the time
	// cannot be evaluated
	Now time.Time
}
