package policies

// Verdict is what a policy says to a call. The zero value is Deny.
type Verdict int

// The verdicts, strictest first: of all rules that match any part of a call
// the lowest wins.
const (
	Deny Verdict = iota
	Ask
	Allow
)

// String is the verdict as policies and logs spell it.
func (v Verdict) String() string {
	switch v {
	case Deny:
		return "deny"
	case Ask:
		return "ask"
	case Allow:
		return "allow"
	}
	return "deny"
}

// Source is the place in a policy text that a decision rests on.
type Source struct {
	File string
	Line int // from 1; 0 where no line decided, as for a default
	Col  int
}

// Decision is a policy's answer to one call.
type Decision struct {
	Verdict Verdict
	Rule    string // id of the rule that decided; "default" where none matched
	Source  Source
	Part    string // the part of the call that decided, as one command of a script; printable, at most 200 characters
	Subject string // what Part is: "command", "path", "URL" or "host"; empty for the call as a whole
	PartNo  int    // number of that part, from 1; 0 where no single part decided
	Parts   int    // parts of the call
	Via     string // programs that start that part, as "env > timeout"; empty if the script itself does
	Reason  string // why, for the agent; never empty unless Verdict is Allow
	Instead string // one allowed alternative, for the agent; as Reason
	Grant   Grant  // zero unless Verdict is Allow
	Layer   string // which layer of the policy decided, as LayerSystem
	Profile string // that the call asks for, or its tenant's own; empty where it cannot have it
	Policy  string // Hash of the policy that decided

	// What a call is bound to that is let through, by this verdict or by the
	// person who is asked. Empty where Verdict is Deny.
	Limits []RateLimit // all of them hold; of every rule that speaks about the call
	Redact []Redaction // to be taken out of the result before the agent gets it

	// How a person is asked. Zero unless Verdict is Ask.
	Ask      Asking
	Remember Remember // the most that an approval may be given for

	// What rules that are not enforced would have said; the strictest first, at
	// most 32. It changes nothing.
	Shadow   []Shadow
	Warnings []string // of Shadow, one line each for the agent, at most 4: the call passes, and will not for ever
}
