package policies

// Mode says whether a rule is enforced. The zero value is enforce.
type Mode int

// The modes of a rule.
const (
	ModeEnforce Mode = iota // the rule decides
	ModeWarn                // as ModeAudit, and the agent reads it if the call would not have passed
	ModeAudit               // the rule decides nothing; the decision contains what it would have decided
)

var modes = []string{"enforce", "warn", "audit"}

// String returns the mode as policies and logs spell it.
func (m Mode) String() string {
	if m < 0 || int(m) >= len(modes) {
		return modes[ModeEnforce]
	}
	return modes[m]
}

// Shadow is the effect that a rule that is not enforced would have had on a call.
type Shadow struct {
	Rule    string
	Source  Source
	Mode    Mode    // ModeWarn or ModeAudit
	Verdict Verdict // verdict that the call would have had if only this further rule had been enforced
	Part    string  // first part that the rule speaks about; as in Decision.Part
}
