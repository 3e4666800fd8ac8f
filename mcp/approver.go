package mcp

import (
	"context"
	"time"

	"belljar.dev/policies"
)

// The states of an Approval.
const (
	ApprovalPending  = "pending"
	ApprovalApproved = "approved" // and not used yet
	ApprovalDeclined = "declined"
	ApprovalExpired  = "expired" // nobody answered in time, or the yes was not used in time
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
	New     bool          // this call asked; no equal call had asked before
	Shown   []string      // what the call does, in printable lines
	Scopes  []string      // the scopes that a yes may have: "once", "session", "hours"
	By, Via string        // the person who answered, and the way that they used
	Note    string        // their own words, besides yes or no
	Scope   string        // the scope of the yes
	Left    time.Duration // the time left; without an answer until then it is a no
	Command string        // by which a person says yes in a terminal; empty for none
	Waited  time.Duration
}

// Question is a call that a person is asked about.
type Question struct {
	Call     Call // without a Grant
	Facts    policies.Facts
	Decision policies.Decision
	// Commands are patterns of commands that a yes to a plan is good for as well.
	Commands []string
}

// ClientAnswer is what a client sent for an elicitation.
type ClientAnswer struct {
	Yes    bool
	Scope  string
	Note   string // their own words, besides yes or no
	Client string // name and version, which prove nothing
	Took   time.Duration
	Itself bool // no person can have read the question in that time
}

// ViaClientItself is Approval.Via where a client answered without a person.
const ViaClientItself = "client without a person"

// Approver asks people about calls that the policy does not decide alone. It
// is called from many goroutines.
type Approver interface {
	// Ways returns the ways beside a tenant's own clients on which people can be
	// asked about its calls, for example "command line". may is false where the
	// policy lets nobody answer for the tenant: then its clients are not asked either.
	Ways(tenant string) (ways []string, may bool)
	// Ask puts the question, or finds that of an equal call with its answer.
	Ask(ctx context.Context, q Question) (Approval, error)
	// Wait returns the approval once it is no longer pending, or once most has passed.
	Wait(ctx context.Context, id string, most time.Duration) (Approval, error)
	// Use spends a yes on the call, which then runs. False means that the yes is gone.
	Use(ctx context.Context, q Question, id string) (bool, error)
	// Answer records the answer of a client.
	Answer(ctx context.Context, id string, a ClientAnswer) error
}
