package mcp

import (
	"context"
	"time"

	"belljar.dev/policies"
)

// The states of an Approval.
const (
	ApprovalPending  = "pending"
	ApprovalApproved = "approved" // the yes is not used yet
	ApprovalDeclined = "declined"
	ApprovalExpired  = "expired" // there was no answer in time, or the yes was not used in time
	ApprovalUsed     = "used"
	ApprovalRevoked  = "revoked"
)

// Approval is the part of a question to a person that a call needs.
type Approval struct {
	ID      string
	Tenant  string
	State   string
	Tool    string
	Rule    string
	New     bool          // the question is new: no equal call had asked it before
	Shown   []string      // what the call does, in printable lines
	Scopes  []string      // scopes that a yes may have: "once", "session", "hours"
	By, Via string        // person who answered, and the way of the answer
	Note    string        // the person's own words, in addition to yes or no
	Scope   string        // scope of the yes
	Left    time.Duration // time until the question expires, which counts as a no
	Command string        // command with which a person says yes in a terminal; may be empty
	Waited  time.Duration
}

// Question is a call that a person must approve.
type Question struct {
	Call     Call // without a Grant
	Facts    policies.Facts
	Decision policies.Decision
	// Commands are patterns of commands for which a yes to a plan is also valid.
	Commands []string
}

// ClientAnswer is the answer of a client to an elicitation.
type ClientAnswer struct {
	Yes    bool
	Scope  string
	Note   string // the person's own words, in addition to yes or no
	Client string // name and version as the client states them, which prove nothing
	Took   time.Duration
	Itself bool // in that time, no person can have read the question
}

// ViaClientItself is Approval.Via if a client answered without a person.
const ViaClientItself = "client without a person"

// Approver asks people about calls that the policy does not decide alone. Its methods may
// be called at the same time.
type Approver interface {
	// Ways returns the ways, for example "command line", by which people can be asked about
	// calls of a tenant, in addition to the tenant's own clients. may is false if the
	// policy lets nobody answer for the tenant. Then the tenant's clients are not asked
	// either.
	Ways(tenant string) (ways []string, may bool)
	// Ask creates the approval of a question, or returns that of an equal call with its
	// answer.
	Ask(ctx context.Context, q Question) (Approval, error)
	// Wait returns the approval as soon as it is no longer pending, or after most has
	// passed.
	Wait(ctx context.Context, id string, most time.Duration) (Approval, error)
	// Use uses a yes for the call, which then runs. It returns false if the yes can no
	// longer be used.
	Use(ctx context.Context, q Question, id string) (bool, error)
	// Answer records the answer of a client.
	Answer(ctx context.Context, id string, a ClientAnswer) error
}
