package policies

import "time"

// Verdict is the verdict of a policy about a call. The zero value is Deny.
type Verdict int

// The verdicts, the strictest first: of all rules that match any part of a call the lowest
// verdict counts.
const (
	Deny Verdict = iota
	Ask
	Allow
)

// String returns the verdict as policies and logs spell it.
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
	Line int // number of the line, from 1; 0 if no line decided, for example for a default
	Col  int
}

// Decision is the answer of a policy to one call.
type Decision struct {
	Verdict Verdict
	Rule    string // id of the rule that decided; "default" if no rule matched
	Source  Source
	// the part of the call that decided, for example one command of a script; printable, and
	// cut after 200 characters
	Part    string
	Subject string // what Part is: "command", "path", "URL", "host" or "act"; empty for the call as a whole
	PartNo  int    // number of that part, from 1; 0 if no single part decided
	Parts   int    // number of parts of the call

	ScriptPart // position of that part, if it is a command

	Reason  string // reason, for the agent; never empty unless Verdict is Allow
	Instead string // one allowed alternative, for the agent; never empty unless Verdict is Allow
	Grant   Grant  // zero unless Verdict is Allow
	Layer   string // the layer of the policy that decided, for example LayerSystem
	Profile string // profile that the call asks for, or that of its tenant; empty if the tenant cannot have it
	Policy  string // Hash of the policy that decided

	// Retry is the time after which the same call may pass, if only a rate refused
	// it; zero if waiting does not help.
	Retry time.Duration

	Obligations

	// The decisions that rules which are not enforced would have made; the
	// strictest first, at most 32. They change nothing.
	Shadow   []Shadow
	Warnings []string // texts for the agent about Shadow, one line each, at most 4: the call passes now, but not for ever

	pending *Grant // what the call may use if a person says yes; nil unless Verdict is Ask
}

// ScriptPart is the position of a part of a call in the script of the call.
type ScriptPart struct {
	// The position in bytes and the words of the part. Both positions are zero if
	// the part is not a command; PartArgv is nil if not every word is known, or if
	// there are too many.
	PartStart, PartEnd int
	PartArgv           []string

	Via string // programs that start the part, for example "env > timeout"; empty if the script itself starts it
}

// Obligations are what binds a call that the verdict, or the person who is asked,
// lets through. All but Audit are empty if the verdict is Deny.
type Obligations struct {
	Limits []RateLimit // limits of every rule that speaks about the call; all of them hold
	Redact []Redaction // what must be removed from the result before the agent gets it

	// Audit is how much the audit log keeps of the call, if a rule says so.
	Audit Kept

	// Ask is how a person is asked, by the policy or by the tool.
	Ask      Asking
	Remember Remember // the most that an approval may be given for; zero unless the verdict is Ask
}

// offer stores a grant in the field that belongs to the verdict.
func (d *Decision) offer(g Grant) {
	switch d.Verdict {
	case Allow:
		d.Grant = g
	case Ask:
		pending := g
		d.pending = &pending
	case Deny:
	}
}

// offered returns what the call may use, immediately or if a person says yes.
func (d *Decision) offered() Grant {
	switch {
	case d.Verdict != Ask:
		return d.Grant
	case d.pending == nil: // no policy made the decision
		return Grant{}
	}
	return *d.pending
}

// Approved returns the decision after a person has said yes to its question, with
// the grant that the policy gives to the call then. If no policy made the
// decision, that grant allows nothing. Only a decision to ask is changed.
func (d Decision) Approved() Decision {
	if d.Verdict == Ask {
		d.Verdict, d.Grant, d.pending = Allow, d.offered(), nil
		d.Grant.approved = true
	}
	return d
}

// Offers returns the grant that the call gets, immediately or if a person says yes. So a
// caller can show the person what a yes would give.
func (d Decision) Offers() Grant { return d.offered() }

// With returns the decision with a smaller grant, which change makes from the grant that
// the decision gives or would give.
func (d Decision) With(change func(Grant) (Grant, error)) (Decision, error) {
	if d.Verdict == Deny {
		return d, nil
	}
	g, err := change(d.offered())
	if err != nil {
		return d, err
	}
	d.offer(g)
	return d, nil
}
