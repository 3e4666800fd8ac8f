package outline

import (
	"strings"
	"unicode"
)

// plain returns a text as one line, with a largest number of bytes. It leaves out
// characters that are invisible or that change the direction of other characters.
func plain(text string, most int) string {
	var out strings.Builder
	blank := false
	for _, r := range text {
		if unicode.IsSpace(r) {
			blank = out.Len() > 0
			continue
		}
		if !unicode.IsGraphic(r) || r == unicode.ReplacementChar || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			r = '?'
		}
		if out.Len()+8 > most {
			return out.String() + "..."
		}
		if blank {
			out.WriteByte(' ')
			blank = false
		}
		out.WriteRune(r)
	}
	return out.String()
}
