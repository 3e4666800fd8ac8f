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
}
