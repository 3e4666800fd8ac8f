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

// Role says what a person may do in a console. Each role may do all that the one before may.
type Role int

// The roles. The zero value may do nothing.
const (
	Viewer   Role = iota + 1 // sees everything and changes nothing
	Approver                 // answers questions
	Operator                 // ends what runs, and changes what agents left
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

// ParseRole returns the role of a name; Operator if it is empty.
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

// Via is the name of this way of answering, in the audit log and for agents.
const Via = "console"

// Views are what a console asks of its server. Each but Server may be nil: then the console
// has no routes of it.
type Views struct {
	Server Server
	People People
	Runs   Runs
	Counts Counts
	Policy Policy
	Tools  Tools
	// Provider lets further people in; nil where there can be none.
	Provider Provider
	// Upstreams are the servers of other people.
	Upstreams Upstreams
	// Fleet has the workers of a front, in the place of People, Runs and AuditDir.
	Fleet Fleet
	// AuditDir is the directory of the audit log; empty where none is kept.
	AuditDir string
	// SetsDir is the directory of the changes that boxes make beside their workspaces; empty
	// where there can be none.
	SetsDir string

	scope Scope // whose things the views show
}

// About is what the server is.
type About struct {
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	Workspace string    `json:"workspace"`
	Policy    string    `json:"policy"`
	Since     time.Time `json:"since"`
}

// Server answers about itself.
type Server interface {
	About() About
	// Agent reports whether a token is that of a client of the server: an agent has such
	// tokens, and a console lets none in.
	Agent(ctx context.Context, token string) bool
	// Known are the people whom the policy lets in from other machines.
	Known(ctx context.Context) []Known
	// Noted writes down who logged in, or was refused.
	Noted(Login)
	// Decided writes down what a person did with a set of changes.
	Decided(Decision)
}

// Decision is what a person did with the changes of a set.
type Decision struct {
	Event     string // "applied" or "discarded"
	Tenant    string // whose set it is
	Set       string
	Workspace string
	By        string
	Paths     int // that were applied
}

// Login is a login, or the refusal of one.
type Login struct {
	Event  string // "console", or "refused"
	Person string // or whose token it is
	Role   Role   // zero for a refusal
	Reason string // of a refusal
}

// Runs has what runs in the server. Its ids are shortened, like those of package control.
type Runs interface {
	Boxes() []control.Box
	// KillBox ends a box with all that runs in it. Its session opens another one when it
	// needs one.
	KillBox(id, by string) error
	Sessions() []control.Session
	EndSession(id, by, note string) []control.Session
	// Jobs are the background tasks that run, and those whose boxes still have their output.
	Jobs() []control.Job
	EndJob(session string, task int64, by string) []control.Job
	Output(session string, task, from int64, most int) (tools.OutputPart, error)
}

// People has the questions that wait for people.
type People interface {
	Approvals(ctx context.Context, all bool) ([]approval.Approval, error)
	// History are approvals that are over as well.
	History(ctx context.Context, f approval.Filter) ([]approval.Approval, error)
	Approval(ctx context.Context, id string) (approval.Approval, error)
	// Arguments are a part of those of the call, where what an approval shows is cut.
	Arguments(ctx context.Context, id string, from, most int) (approval.Part, error)
	Approve(ctx context.Context, id string, said approval.Reply) (approval.Approval, error)
	Revoke(ctx context.Context, id, by string) (approval.Approval, error)
	// Questions are those of some tenants; nil for all.
	Questions(ctx context.Context, all bool, tenants []string) ([]question.Asked, error)
	Question(ctx context.Context, id string) (question.Asked, error)
	Answer(ctx context.Context, id string, said question.Reply) (question.Asked, error)
	// Command returns a command line of belljar with what it needs to find this server.
	Command(text string) string
}
