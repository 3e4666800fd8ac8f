package engine

// Outcome is what became of one engine for one query.
type Outcome int

// The outcomes. None is the value for an engine that was not asked.
const (
	None             Outcome = iota
	OK                       // there are results
	Empty                    // the engine itself says that it has none
	BlockedCaptcha           // it wants to see a person first
	BlockedSoft              // it turned us away, with a page that holds no results
	RateLimited              // it wants fewer requests
	Timeout                  // it did not answer in time
	HTTPError                // it could not be reached, or answered with an error
	Drift                    // it answered with what its file does not know
	DisabledByPolicy         // the policy does not let it be asked
	SkippedOpen              // it was not asked, as it failed lately
)

var outcomeNames = [...]string{
	None: "NONE", OK: "OK", Empty: "EMPTY", BlockedCaptcha: "BLOCKED_CAPTCHA", BlockedSoft: "BLOCKED_SOFT",
	RateLimited: "RATE_LIMITED", Timeout: "TIMEOUT", HTTPError: "HTTP_ERROR", Drift: "DRIFT",
	DisabledByPolicy: "DISABLED_BY_POLICY", SkippedOpen: "SKIPPED_OPEN",
}

// String is the outcome as it stands on the wire, in logs and in tables.
func (o Outcome) String() string {
	if o < 0 || int(o) >= len(outcomeNames) {
		return "NONE"
	}
	return outcomeNames[o]
}

// OutcomeOf returns the outcome whose String is name, or None.
func OutcomeOf(name string) Outcome {
	for o, s := range outcomeNames {
		if s == name {
			return Outcome(o)
		}
	}
	return None
}

// Blocked reports whether the engine turned us away.
func (o Outcome) Blocked() bool { return o == BlockedCaptcha || o == BlockedSoft }

// Answered reports whether the outcome says something about the query: results,
// or that nothing exists. All others prove nothing.
func (o Outcome) Answered() bool { return o == OK || o == Empty }

// Words returns the outcome as a status line names it: what the engine did
// instead of answering. It is empty for an engine that answered or was not asked.
func (o Outcome) Words() string {
	switch o {
	case BlockedCaptcha, BlockedSoft:
		return "blocked"
	case RateLimited:
		return "rate limited"
	case Timeout:
		return "timed out"
	case HTTPError:
		return "failed"
	case Drift:
		return "gave a page that is not understood"
	case SkippedOpen:
		return "not asked"
	case DisabledByPolicy:
		return "not allowed"
	case None, OK, Empty:
	}
	return ""
}
