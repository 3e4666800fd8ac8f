package policies

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// maxBlock bounds the text of a Block, in characters.
const maxBlock = 1000

// Block is an action that the sandbox refused. An agent that sees only the error
// of its program tries to repair what is not broken; the text of a Block gives
// the real cause.
type Block struct {
	What    string // the action, for example "connect to pypi.example:443"; empty if Reason names it
	Times   int    // how often it was refused, if more than once
	Host    bool   // the action was meant for another machine, which is not to blame
	Reason  string
	Rule    string // name of what decided; empty if it has no name
	Profile string // profile of the box; may be empty
	Ran     string // for example "Nothing was run."; empty if the result shows it
	Instead string // what is allowed, or what to do
	Retry   string // RetryNever if empty
}

// Refusal returns the refusal, with the one line that the agent reads: the refused action,
// the reason, that the other machine is not to blame, and what is allowed instead.
func (b Block) Refusal() Refusal {
	reason := strings.TrimRight(cmp.Or(b.Reason, "the policy does not allow it"), ". ")
	r := Refusal{
		Decision: Blocked, Layer: "sandbox", Rule: b.Rule,
		Reason: Clip(reason+".", maxSaid), Instead: Clip(b.Instead, maxSaid), Retry: cmp.Or(b.Retry, RetryNever),
	}
	if b.What != "" {
		r.Part = &RefusedPart{Text: Clip(b.What, maxPart)}
	}
	var t strings.Builder
	t.WriteString("BLOCKED by the sandbox: ")
	if b.What != "" {
		t.WriteString(b.What + " refused")
		if b.Times > 1 {
			fmt.Fprintf(&t, " %d times", b.Times)
		}
		t.WriteString(", ")
	}
	t.WriteString(reason)
	if b.Profile != "" && !strings.Contains(reason, strconv.Quote(b.Profile)) {
		fmt.Fprintf(&t, " (profile %q)", b.Profile)
	}
	t.WriteByte('.')
	if b.Host {
		t.WriteString(" The host is not down.")
	}
	for _, s := range []string{b.Ran, b.Instead} {
		if s != "" {
			t.WriteString(" " + s)
		}
	}
	r.text = Clip(t.String(), maxBlock)
	return r
}
