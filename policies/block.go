package policies

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// maxBlock bounds the text of a Block, in characters.
const maxBlock = 1000

// Block is what the sandbox held against. An agent that is only shown what its
// program said of it mends what is not broken, so it is told in these words.
type Block struct {
	What    string // what was tried, as "connect to pypi.example:443"; empty where Reason says it
	Times   int    // how often, where above 1
	Host    bool   // it was meant for another machine, which is not to blame
	Reason  string
	Rule    string // what decided, where that has a name
	Profile string // of the box; may be empty
	Ran     string // as "Nothing was run."; empty where the result shows it
	Instead string // what is allowed, or what to do
	Retry   string // RetryNever if empty
}

// Refusal is the one line that an agent is told: who refused, what and why,
// that the other side is not to blame, and what is allowed.
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
