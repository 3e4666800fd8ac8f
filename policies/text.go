package policies

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"belljar.dev/internal/printable"
)

// Clip returns s in one line, in which every character is visible; most is the largest
// number of characters of s, and dots replace the others. The text of a call must not be able to add lines to a refusal or a
// question, or to hide in it. Invisible characters are escaped, and also every space except
// the ordinary one.
func Clip(s string, most int) string {
	hidden := func(r rune) bool { return !printable.InLine(r) }
	if len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, hidden) {
		return s // nearly every text is unchanged
	}
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == most {
			b.WriteString("...")
			break
		}
		n++
		if printable.InLine(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// Spoken returns a duration in words, in whole hours, minutes or seconds.
func Spoken(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d h", (d+time.Hour/2)/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d min", (d+time.Minute/2)/time.Minute)
	}
	return fmt.Sprintf("%d s", max(d, 0)/time.Second)
}

// inWords returns a duration for a sentence, rounded up.
func inWords(d time.Duration) string {
	up := func(unit time.Duration) int64 { return int64((d + unit - 1) / unit) }
	switch {
	case d <= 2*time.Minute:
		return fmt.Sprintf("%d s", max(up(time.Second), 1))
	case d <= 2*time.Hour:
		return fmt.Sprintf("%d min", up(time.Minute))
	}
	return fmt.Sprintf("%d h", up(time.Hour))
}

// shown returns a text of a policy in quotes, for a message.
func shown(s string) string { return `"` + Clip(s, maxShown) + `"` }

// list joins names for a message.
func list(names []string) string { return strings.Join(names, ", ") }

// names returns the keys of a map in order.
func names[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

// control reports whether a text contains a control character of ASCII.
func control(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
