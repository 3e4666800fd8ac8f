package approval

import (
	"errors"
	"strings"
	"time"

	"belljar.dev/internal/people"
	"belljar.dev/policies"
)

// State is the state of a question.
type State string

// The states. Declined, Expired and Revoked are final. Used is final too, unless the yes is
// for a plan: that yes can still be revoked.
const (
	Pending  State = "pending"  // nobody has answered
	Approved State = "approved" // the answer is yes, and the yes is still good
	Declined State = "declined" // the answer is no
	Expired  State = "expired"  // nobody answered in time, or the yes was not used in time
	Used     State = "used"     // the call that the yes was for has begun
	Revoked  State = "revoked"  // the yes was revoked
)

// Scope is the set of calls that a yes is good for.
type Scope string

// The scopes.
const (
	Once    Scope = "once"    // one call, with exactly these arguments
	Session Scope = "session" // calls that look the same, until the session ends
	Hours   Scope = "hours"   // calls that look the same, until some hours have passed
)

// Bounds of a desk.
const (
	maxPending  = 32             // most questions of one tenant that wait
	maxKept     = 10_000         // most approvals of a desk, including those that have ended
	maxListed   = 200            // most approvals in one list
	maxSession  = 24 * time.Hour // longest life of a yes for a session
	maxWho      = 200            // characters of the name of a person, and of Via
	maxNote     = 500            // characters of a note
	maxArgument = 1 << 20        // bytes of arguments
)

// Approval is one question and its outcome.
type Approval struct {
	ID        string `json:"id"` // "ap-" and random letters
	Tenant    string `json:"tenant"`
	Principal string `json:"principal"` // caller of the call
	Session   string `json:"session"`   // beginning of the ID of the call's session
	Place     string `json:"place"`     // path of the workspace
	Tool      string `json:"tool"`
	CallID    string `json:"call_id"` // ID of the first call that asked
	Digest    string `json:"digest"`  // digest of the arguments and what they are bound to
	Asker
	Shown Shown `json:"shown"`

	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"` // time at which the question ends without an answer
	State   State     `json:"state"`

	people.Said
	Yes

	// Scopes are the scopes that a yes may have here, the narrowest first. For is the
	// longest time for the scope Hours.
	Scopes []Scope       `json:"scopes"`
	For    time.Duration `json:"for,omitempty"`

	sessionID string // whole ID of the session
	canon     string // digest of calls that look the same; empty if a yes is for one call only
}

// Asker is the part of the policy that asks.
type Asker struct {
	Profile string `json:"profile"`
	Rule    string `json:"rule"`
	Reason  string `json:"reason"`
	Policy  string `json:"policy_sha256"`
}

// Yes contains the extent of a yes, and its uses.
type Yes struct {
	Scope Scope     `json:"scope,omitempty"`
	Until time.Time `json:"until,omitzero"` // time at which the yes ends
	Uses  int       `json:"uses,omitempty"` // number of calls that the yes let run
	// patterns of the commands of a plan; a yes to the plan is a yes to these commands
	Commands []string `json:"commands,omitempty"`
}

// Offers returns the possible scopes of a yes, in words.
func (a Approval) Offers() string {
	words := make([]string, len(a.Scopes))
	for i, s := range a.Scopes {
		if words[i] = string(s); s == Hours {
			words[i] = "up to " + policies.Spoken(a.For)
		}
	}
	return strings.Join(words, ", ")
}

// Version returns what an answer is bound to: the call and the policy that asked. Two
// questions that differ for a person have different versions.
func (a Approval) Version() string {
	return digestOf(a.Digest + "\n" + a.Policy)[:16]
}

// maxBrief is the most lines that a list shows of each approval.
const maxBrief = 3

// Brief returns an approval for a list, with the first lines of what is shown.
func (a Approval) Brief() Approval {
	s := a.Shown
	a.Shown = Shown{Commands: s.Commands[:min(len(s.Commands), maxBrief)], Args: s.Args[:min(len(s.Args), maxBrief)]}
	return a
}

// Waited returns the time until the answer, or the time that the question has waited so
// far.
func (a Approval) Waited(now time.Time) time.Duration {
	if a.Answered.IsZero() {
		return now.Sub(a.Created)
	}
	return a.Answered.Sub(a.Created)
}

// Request is a call for which a person is asked.
type Request struct {
	CallID    string
	Principal string // caller, if it is known
	Facts     policies.Facts
	Decision  policies.Decision // decision of the policy, whose verdict is ask
	// Commands are the patterns of commands for which a yes to a plan is also good, in the
	// form that CheckCommands checks.
	Commands []string
}

// Reply is the answer of a person.
type Reply struct {
	Yes   bool
	First bool          // whether an equal earlier answer is an error
	Scope Scope         // scope of the yes; Once if empty
	For   time.Duration // time for the scope Hours; zero means the longest allowed time
	By    string        // name by which Via knows the person
	Via   string        // way of the answer: "command line", "console", "client" or "webhook"
	Note  string        // note of the person for the agent
}

// The errors of a question or an answer.
var (
	ErrAnswered = errors.New("it already has another answer")
	ErrOver     = errors.New("it is too late")
	ErrOpen     = errors.New("it was not answered yet")
	ErrScope    = errors.New("a yes cannot be given for that")
	ErrPolicy   = errors.New("the policy has changed since")
)

// Event is something that happened to an approval, for the audit log.
type Event struct {
	Kind     string // "asked", "given", "refused", "expired", "used" or "revoked"
	Approval Approval
	CallID   string // ID of the call that used the approval, or that asked
}
