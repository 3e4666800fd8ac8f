package policies

import (
	"fmt"
	"slices"
	"time"
)

// RateLimit says how many calls a rule lets through. It bounds all calls of one tenant
// together that the rule speaks about. The policy only states the limit: the code that
// admits calls counts them, and refuses the calls beyond it.
type RateLimit struct {
	Rule       string
	Source     Source
	Calls      int           // calls in the time Per; 0 if only Concurrent bounds
	Per        time.Duration // 0 exactly if Calls is 0
	Concurrent int           // calls that run at the same time; 0 if only Calls bounds
}

// String returns the limit as policies spell it.
func (l RateLimit) String() string {
	text := ""
	if l.Calls > 0 {
		text = fmt.Sprintf("calls: %d/%s", l.Calls, perName(l.Per))
	}
	if l.Concurrent > 0 {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("concurrent: %d", l.Concurrent)
	}
	return text
}

// isZero reports whether the limit bounds nothing.
func (l RateLimit) isZero() bool { return l.Calls == 0 && l.Concurrent == 0 }

// Bounds of a limit.
const (
	maxCalls      = 1_000_000
	maxConcurrent = 100_000
)

// pers are the units of time of a rate.
var pers = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour,
}

// perNames are the spellings of pers that messages use.
var perNames = []string{"s", "min", "h", "day"}

func perName(d time.Duration) string {
	i := slices.IndexFunc(perNames, func(s string) bool { return pers[s] == d })
	if i < 0 {
		return d.String()
	}
	return perNames[i]
}

// Redaction names what is removed from a call's result before the agent gets it.
type Redaction string

// The kinds of text that can be removed.
const (
	RedactEmails Redaction = "emails" // addresses of mail
	RedactTokens Redaction = "tokens" // texts that look like a key, a token or a password
)

var redactions = []string{string(RedactEmails), string(RedactTokens)}

// terms are the obligations of a call that a rule lets through.
type terms struct {
	limit    RateLimit // zero if calls are not limited
	redact   []Redaction
	remember *Remember // of rules that ask; nil if the defaults apply
	audit    Kept
}

// any reports whether there are terms that apply to every verdict.
func (t terms) any() bool { return !t.limit.isZero() || len(t.redact) > 0 || t.audit.Said }

// How a question is asked if the policy does not say.
const (
	DefaultAskTimeout     = 10 * time.Minute // time until a question without an answer counts as a no
	DefaultAskReturnAfter = 20 * time.Second // time until the call that asks gets an answer, if only that it waits
	DefaultMaxRemember    = 8 * time.Hour    // longest life of an approval that outlives its session
)

// Bounds for questions. Clients give up on a call after a minute, so a call that waits
// longer never gets its answer to the agent.
const (
	maxAskTimeout     = 24 * time.Hour
	maxAskReturnAfter = 50 * time.Second
	mostRemember      = 30 * 24 * time.Hour
)

// Asking says how a person is asked.
type Asking struct {
	Timeout     time.Duration // time until a question without an answer counts as a no
	ReturnAfter time.Duration // time until the call that asks gets an answer, if only that it waits; at most Timeout
}

// Remember says which further calls an approval may cover in addition to its own call. The
// zero value means no further calls: the approval is valid once.
type Remember struct {
	Session bool          // also equal calls until the session ends
	For     time.Duration // also equal calls until this time has passed, if above zero
}

// narrow returns the Remember that both allow.
func (r Remember) narrow(other Remember) Remember {
	return Remember{Session: r.Session && other.Session, For: min(r.For, other.For)}
}

// anyRemember is the widest Remember.
var anyRemember = Remember{Session: true, For: mostRemember}

// String returns r as policies spell it.
func (r Remember) String() string {
	text := "once"
	if r.Session {
		text += ", session"
	}
	if r.For > 0 {
		text += fmt.Sprintf(", %v", r.For)
	}
	return text
}

// asking is the value of defaults.ask.
type asking struct {
	Asking
	remember Remember      // for a rule that says nothing about it
	most     time.Duration // longest Remember.For that a rule may have
}

func defaultAsking() asking {
	return asking{
		Asking:   Asking{Timeout: DefaultAskTimeout, ReturnAfter: DefaultAskReturnAfter},
		remember: Remember{Session: true}, most: DefaultMaxRemember,
	}
}
