package console

import (
	"context"
	"fmt"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/mcp/tools"
)

// Role says what a person may do in a console. Each role may do everything that the role
// before it may do.
type Role int

// Roles of people. The zero value may do nothing.
const (
	Viewer   Role = iota + 1 // sees everything and changes nothing
	Approver                 // also answers questions
	Operator                 // also ends what runs, and decides about the changes of agents
)

// String returns the name of a role.
func (r Role) String() string {
	switch r {
	case Viewer:
		return "viewer"
	case Approver:
		return "approver"
	case Operator:
		return "operator"
	}
	return "nobody"
}

// ParseRole returns the role with a name; Operator for an empty name.
func ParseRole(name string) (Role, error) {
	switch name {
	case "", "operator":
		return Operator, nil
	case "approver":
		return Approver, nil
	case "viewer":
		return Viewer, nil
	}
	return 0, fmt.Errorf("the role %q does not exist; want viewer, approver or operator", name)
}

// Via is the name of the console as the way of answering, in the audit log and for agents.
const Via = "console"

// Views are the interfaces through which a console uses its server. Each field except
// Server may be nil: then the console does not have its routes.
type Views struct {
	Server Server
	People People
	Runs   Runs
	Counts Counts
	Policy Policy
	Tools  Tools
	// Provider lets further people log in; nil if there can be no provider.
	Provider Provider
	// Upstreams gives access to the upstreams of the server.
	Upstreams Upstreams
	// Fleet gives access to the workers of a front, in place of People, Runs and AuditDir.
	Fleet Fleet
	// AuditDir is the directory of the audit log; empty if no log is kept.
	AuditDir string
	// SetsDir is the directory of the changes of boxes in overlay mode, which are kept apart
	// from the workspaces; empty without a state directory.
	SetsDir string

	scope Scope // tenants whose things the views show
}

// About describes the server.
type About struct {
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	Workspace string    `json:"workspace"`
	Policy    string    `json:"policy"`
	Since     time.Time `json:"since"`
}

// Server is the server behind a console.
type Server interface {
	About() About
	// Agent reports whether a token belongs to a client of the server. Agents have such
	// tokens, so a console accepts none of them.
	Agent(ctx context.Context, token string) bool
	// Known returns the people whom the policy allows to log in from other machines.
	Known(ctx context.Context) []Known
	// Noted records who logged in, or who was refused.
	Noted(Login)
	// Decided records what a person did with a set of changes.
	Decided(Decision)
}

// Decision describes what a person did with the changes of a set.
type Decision struct {
	Event     string // "applied" or "discarded"
	Tenant    string // tenant that the set belongs to
	Set       string
	Workspace string
	By        string
	Paths     int // number of paths that were applied
}

// Login describes a login, or a login that was refused.
type Login struct {
	Event  string // "console", or "refused"
	Person string // name of the person, or whose token was used
	Role   Role   // role of the person; zero for a refusal
	Reason string // reason of a refusal
}

// Runs gives access to what runs in the server. Ids are shortened as in package control.
type Runs interface {
	Boxes() []control.Box
	// KillBox ends a box with everything that runs in it. Its session opens another box
	// when it needs one.
	KillBox(id, by string) error
	Sessions() []control.Session
	EndSession(id, by, note string) []control.Session
	// Jobs returns the background tasks that run, and those that have ended but whose boxes
	// still have their output.
	Jobs() []control.Job
	EndJob(session string, task int64, by string) []control.Job
	Output(session string, task, from int64, most int) (tools.OutputPart, error)
}

// People gives access to the approvals and questions of a server.
type People interface {
	Approvals(ctx context.Context, all bool) ([]approval.Approval, error)
	// History returns approvals, also those that are over.
	History(ctx context.Context, f approval.Filter) ([]approval.Approval, error)
	Approval(ctx context.Context, id string) (approval.Approval, error)
	// Arguments returns a part of the arguments of a call whose approval shows them cut.
	Arguments(ctx context.Context, id string, from, most int) (approval.Part, error)
	Approve(ctx context.Context, id string, said approval.Reply) (approval.Approval, error)
	Revoke(ctx context.Context, id, by string) (approval.Approval, error)
	// Questions returns the questions of some tenants; of all tenants if tenants is nil.
	Questions(ctx context.Context, all bool, tenants []string) ([]question.Asked, error)
	Question(ctx context.Context, id string) (question.Asked, error)
	Answer(ctx context.Context, id string, said question.Reply) (question.Asked, error)
	// Command returns a command line of belljar with the flags that it needs to find this
	// server.
	Command(text string) string
}
