package policies

// Mode says whether what a rule says is done. The zero value is enforce.
type Mode int

// The modes of a rule.
const (
	ModeEnforce Mode = iota // the rule decides
	ModeWarn                // it decides nothing; the agent reads what it would have said
	ModeAudit               // it decides nothing; the decision carries what it would have said
)

var modes = []string{"enforce", "warn", "audit"}

// String is the mode as policies and logs spell it.
func (m Mode) String() string {
	if m < 0 || int(m) >= len(modes) {
		return modes[ModeEnforce]
	}
	return modes[m]
}

// Shadow is what a rule that is not enforced would have made of a call.
type Shadow struct {
	Rule    string
	Source  Source
	Mode    Mode    // ModeWarn or ModeAudit
	Verdict Verdict // the call's, had this rule alone been enforced besides
	Part    string  // the part that the rule speaks about, the first of several; as in Decision
}
