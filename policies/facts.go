package policies

import "time"

// Facts are what one call shows the policy. A tool fills in what its own
// arguments say (Command, Paths, Hosts, URLs, Args, Profile); the front end
// adds whose call it is and which tool was named (Tenant, Session, Tool).
// A tool that leaves a field empty says that the call does not touch such a
// thing, so a field may only be empty when that is true.
type Facts struct {
	Tenant  string // whose work it is
	Session string // the conversation the call came in
	Tool    string // name on the wire, for example "Bash"
	// ToolNames are further names of the tool of an upstream. Rules that deny or ask see
	// them as they see Tool, so that a rule does not lose a tool whose name has changed.
	// Rules that allow see Tool alone: an upstream chooses the names of its tools.
	ToolNames []string
	Profile   string // profile asked for by name; empty means the policy's default

	// Scopes are what the caller's token may be used for, if that is less than what its
	// tenant may do; nil if it is not.
	Scopes []string

	Command string   // shell text, for tools that run commands
	Env     []string // names of the variables that the call sets for its command
	// Values are the values of the variables in Env, by name. A variable without an
	// entry may have any value.
	Values map[string]string
	Stdin  string   // what the command is given as its input
	Paths  []string // files the call names, absolute as the box sees them
	Hosts  []string // hosts the call names
	URLs   []string // URLs the call names
	Acts   []Act    // what the call does with a browser

	// Exec is set if the facts are those of a program that is about to be started,
	// and not of a whole call: see Grant.DecideExec.
	Exec *Exec

	// Scene is the state that the command finds, for the question to a person; nil
	// if nobody is asked. No rule looks at it.
	Scene *Scene

	Args        map[string]any  // all arguments as decoded, for conditions
	Upstream    string          // proxied server the tool belongs to; empty for our own
	Annotations map[string]bool // hints the tool declares: readOnlyHint, destructiveHint, ...; with Upstream they are that server's claims
	Now         time.Time       // when the call came, for conditions; without it those that look at the time cannot be worked out
}
