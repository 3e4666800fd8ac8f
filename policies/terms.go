package policies

import (
	"fmt"
	"slices"
	"time"
)

// RateLimit is how many calls a rule lets through. It holds for all calls of
// one tenant that the rule speaks about together. The policy only states it: the
// code that admits calls counts them, and refuses those beyond.
type RateLimit struct {
	Rule       string
	Source     Source
	Calls      int           // in Per; 0 if only Concurrent bounds
	Per        time.Duration // 0 exactly if Calls is
	Concurrent int           // running at once; 0 if only Calls bounds
}

// String is the limit as policies spell it.
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

// pers are the times that a rate counts in.
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

// Redaction names what is taken out of a call's result before the agent gets
// it.
type Redaction string

// The kinds of text that can be taken out.
const (
	RedactEmails Redaction = "emails" // addresses of mail
	RedactTokens Redaction = "tokens" // what looks like a key, a token or a password
)

var redactions = []string{string(RedactEmails), string(RedactTokens)}

// terms are the obligations of a call that a rule lets through.
type terms struct {
	limit    RateLimit // zero for none
	redact   []Redaction
	remember *Remember // nil for what the defaults say; of rules that ask
	audit    Kept
}

// any reports whether there are terms that hold for every verdict.
func (t terms) any() bool { return !t.limit.isZero() || len(t.redact) > 0 || t.audit.Said }

// How a question is put where the policy does not say.
const (
	DefaultAskTimeout     = 10 * time.Minute // until a question that nobody answers is a no
	DefaultAskReturnAfter = 20 * time.Second // until the call that asks gets an answer, if only that it waits
	DefaultMaxRemember    = 8 * time.Hour    // longest life of an approval that outlives its session
)

// Bounds of how a question is put. Clients give up on a call after a minute, so
// a call that waits longer never gets its answer to the agent.
const (
	maxAskTimeout     = 24 * time.Hour
	maxAskReturnAfter = 50 * time.Second
	mostRemember      = 30 * 24 * time.Hour
)

// Asking says how a person is asked.
type Asking struct {
	Timeout     time.Duration // until a question that nobody answers is a no
	ReturnAfter time.Duration // until the call that asks gets an answer, if only that it waits; at most Timeout
}

// Remember says which further calls an approval may cover besides its own call.
// The zero value means none: the approval holds once.
type Remember struct {
	Session bool          // for equal calls until the session ends
	For     time.Duration // for equal calls until this time has passed, if above zero
}

// narrow returns the Remember that both allow.
func (r Remember) narrow(other Remember) Remember {
	return Remember{Session: r.Session && other.Session, For: min(r.For, other.For)}
}

// anyRemember is what every other Remember is narrower than.
var anyRemember = Remember{Session: true, For: mostRemember}

// String is r as policies spell it.
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

// asking is what defaults.ask says.
type asking struct {
	Asking
	remember Remember      // of a rule that says nothing
	most     time.Duration // longest Remember.For of any rule
}

func defaultAsking() asking {
	return asking{
		Asking:   Asking{Timeout: DefaultAskTimeout, ReturnAfter: DefaultAskReturnAfter},
		remember: Remember{Session: true}, most: DefaultMaxRemember,
	}
}
