package engine

// Outcome is the result of asking one engine one query.
type Outcome int

// The values of Outcome. None is the value for an engine that was not asked.
const (
	None             Outcome = iota
	OK                       // the engine returned results
	Empty                    // the engine itself reported that it has no results
	BlockedCaptcha           // the engine asked for a captcha
	BlockedSoft              // the engine refused, with a page that contains no results
	RateLimited              // the engine asked for fewer requests
	Timeout                  // the engine did not answer in time
	HTTPError                // the engine could not be reached, or answered with an error
	Drift                    // the engine's answer does not match its file
	DisabledByPolicy         // the policy does not allow the engine
	SkippedOpen              // the engine was not asked, because it failed recently
)

var outcomeNames = [...]string{
	None: "NONE", OK: "OK", Empty: "EMPTY", BlockedCaptcha: "BLOCKED_CAPTCHA", BlockedSoft: "BLOCKED_SOFT",
	RateLimited: "RATE_LIMITED", Timeout: "TIMEOUT", HTTPError: "HTTP_ERROR", Drift: "DRIFT",
	DisabledByPolicy: "DISABLED_BY_POLICY", SkippedOpen: "SKIPPED_OPEN",
}

// String returns the outcome as it is written in answers, logs and tables.
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

// Blocked reports whether the engine refused us.
func (o Outcome) Blocked() bool { return o == BlockedCaptcha || o == BlockedSoft }

// Answered reports whether the outcome says something about the query: results, or that the
// engine has no results. All other outcomes prove nothing.
func (o Outcome) Answered() bool { return o == OK || o == Empty }

// Words returns what a status line says about the outcome of an engine that did not answer.
// It is empty for None, OK and Empty.
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
