package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// maxPart bounds what a refusal repeats of a call, in characters.
const maxPart = 200

// Refusal is what an agent is told of a call that was not allowed: who
// refused, that nothing ran, which part it was, why, what to do instead, and
// whether trying again helps. callID is repeated so that logs can be searched
// for it; it may be empty. A decision to ask is worded for the case that no
// approver is connected. Refusal of an allowed call is "".
func (d Decision) Refusal(callID string) string {
	subject := cmp.Or(d.Subject, "call")
	var b strings.Builder
	b.WriteString("DENIED by policy")
	switch d.Rule {
	case "":
	case ruleDefault:
		b.WriteString(" default")
	default:
		b.WriteString(" rule " + d.Rule)
	}
	switch {
	case d.Source.Line > 0:
		fmt.Fprintf(&b, " (%s:%d)", d.Source.File, d.Source.Line)
	case d.Source.File != "":
		fmt.Fprintf(&b, " (%s)", d.Source.File)
	}
	again := fmt.Sprintf("Wrapping or rewording this %s gives the same answer.", subject)
	switch d.Verdict {
	case Allow:
		return ""
	case Ask:
		b.WriteString(": a person must approve it, and no approver is connected")
		again = fmt.Sprintf("Until one is, repeating or wrapping this %s gives the same answer.", subject)
	case Deny:
		switch {
		case d.Retry > 0:
			again = fmt.Sprintf("Until then repeating or wrapping this %s gives the same answer.", subject)
		case d.Rule == ruleDefault:
			again = fmt.Sprintf("Wrapping this %s gives the same answer.", subject)
		case slices.Contains(reserved, d.Rule):
			again = fmt.Sprintf("Repeating this %s unchanged gives the same answer.", subject)
		}
	}
	b.WriteString(". Nothing was run.\n")
	if d.Part != "" && (d.Parts > 1 || d.Subject != aCommand) {
		if d.Parts > 1 && d.PartNo > 0 {
			fmt.Fprintf(&b, "Part %d of %d: ", d.PartNo, d.Parts)
		} else {
			b.WriteString("Part: ")
		}
		b.WriteString(Clip(d.Part, maxPart))
		if d.Via != "" {
			b.WriteString(" (started by " + Clip(d.Via, maxPart) + ")")
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "Why: %s\n", Clip(cmp.Or(d.Reason, "The policy does not allow this "+subject+"."), maxSaid))
	fmt.Fprintf(&b, "Do this instead: %s\n", Clip(cmp.Or(d.Instead, "Reach the goal another way, or tell the person you work for."), maxSaid))
	b.WriteString(again)
	if callID != "" {
		b.WriteString(" Call id " + callID + ".")
	}
	return b.String()
}

// Clip makes one printable line of s, cut to most characters: the text of a call
// must not be able to add lines to a refusal or to hide in it.
func Clip(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == most {
			b.WriteString("...")
			break
		}
		n++
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}
