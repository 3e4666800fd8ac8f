package approval

import (
	"errors"
	"strings"
	"time"

	"belljar.dev/internal/people"
	"belljar.dev/policies"
)

// State says how a question stands.
type State string

// The states. From Declined on nothing changes any more.
const (
	Pending  State = "pending"  // nobody has answered
	Approved State = "approved" // yes, and the yes is still good
	Declined State = "declined" // no
	Expired  State = "expired"  // nobody answered in time, or the yes was not used in time
	Used     State = "used"     // the call that the yes was for has begun
	Revoked  State = "revoked"  // the yes was taken back
)

// Scope says what a yes is good for.
type Scope string

// The scopes.
const (
	Once    Scope = "once"    // one call, with these very arguments
	Session Scope = "session" // calls that look the same, until the session ends
	Hours   Scope = "hours"   // calls that look the same, until some hours have passed
)

// Bounds of a desk.
const (
	maxPending  = 32             // questions of one tenant that wait
	maxKept     = 10_000         // approvals of a desk, ended ones included
	maxListed   = 200            // of one list
	maxSession  = 24 * time.Hour // longest life of a yes for a session
	maxWho      = 200            // characters of the name of a person, and of the way of the answer
	maxNote     = 500            // characters of what they said
	maxArgument = 1 << 20        // bytes of arguments
)

// Approval is one question and what became of it.
type Approval struct {
	ID        string `json:"id"` // "ap-" and random letters
	Tenant    string `json:"tenant"`
	Principal string `json:"principal"` // who made the call
	Session   string `json:"session"`   // in which it was made, shortened
	Place     string `json:"place"`     // the workspace
	Tool      string `json:"tool"`
	CallID    string `json:"call_id"` // of the first call that asked
	Digest    string `json:"digest"`  // of the arguments, and of all they are bound to
	Asker
	Shown Shown `json:"shown"`

	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"` // when no answer is a no
	State   State     `json:"state"`

	people.Said
	Yes

	// Scopes are those that a yes may have here, the narrowest first, and For is
	// the longest time of Hours.
	Scopes []Scope       `json:"scopes"`
	For    time.Duration `json:"for,omitempty"`

	sessionID string // the whole of Session
	canon     string // of calls that look the same; empty where a yes is for once only
}

// Asker is the part of the policy that asks.
type Asker struct {
	Profile string `json:"profile"`
	Rule    string `json:"rule"`
	Reason  string `json:"reason"`
	Policy  string `json:"policy_sha256"`
}

// Yes is what a yes is good for, and what it was used for.
type Yes struct {
	Scope    Scope     `json:"scope,omitempty"`
	Until    time.Time `json:"until,omitzero"`     // when it ends
	Uses     int       `json:"uses,omitempty"`     // calls that it let run
	Commands []string  `json:"commands,omitempty"` // patterns of those that a plan runs: a yes to the plan is one to them
}

// Offers is what a yes may be given for, in words.
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

// maxBrief is how many lines a list has of each approval.
const maxBrief = 3

// Brief returns an approval for a list, with the first lines of what is shown.
func (a Approval) Brief() Approval {
	s := a.Shown
	a.Shown = Shown{Commands: s.Commands[:min(len(s.Commands), maxBrief)], Args: s.Args[:min(len(s.Args), maxBrief)]}
	return a
}

// Waited is how long the answer took, or the question waits already.
func (a Approval) Waited(now time.Time) time.Duration {
	if a.Answered.IsZero() {
		return now.Sub(a.Created)
	}
	return a.Answered.Sub(a.Created)
}

// Request is a call about which a person is to be asked.
type Request struct {
	CallID    string
	Principal string // the caller, as far as that is known
	Facts     policies.Facts
	Decision  policies.Decision // to ask
	// Commands are patterns of commands that a yes to a plan is good for as well,
	// as CheckCommands takes them.
	Commands []string
}

// Reply is what a person says.
type Reply struct {
	Yes   bool
	First bool          // an equal answer that was given before is an error as well
	Scope Scope         // Once if empty
	For   time.Duration // of Hours; the longest that is allowed if zero
	By    string        // who, as the way knows them
	Via   string        // "command line", "console", "client" or "webhook"
	Note  string        // for the agent
}

// The errors of a question or an answer.
var (
	ErrAnswered = errors.New("it was answered otherwise before")
	ErrOver     = errors.New("it is too late")
	ErrOpen     = errors.New("it was not answered yet")
	ErrScope    = errors.New("a yes cannot be given for that")
	ErrPolicy   = errors.New("the policy is another one by now")
)

// Event is something that happened to an approval, for the audit log.
type Event struct {
	Kind     string // "asked", "given", "refused", "expired", "used" or "revoked"
	Approval Approval
	CallID   string // that used it, or that asked
}
