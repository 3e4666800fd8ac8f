package audit

import (
	"fmt"
	"strings"

	"belljar.dev/internal/printable"
)

// Bounds of the content of a record.
const (
	maxName    = 200      // bytes of a name that another party chose
	maxText    = 4 << 10  // bytes of a reason, an error or a path
	maxString  = 16 << 10 // bytes of one text among the arguments
	maxArgs    = 64 << 10 // bytes of all arguments, or of all facts
	maxResult  = 64 << 10 // bytes of a result
	maxDepth   = 64       // levels of nesting in the arguments
	maxValues  = 1024     // number of secrets that are known
	leastValue = 6        // bytes of a secret that is looked for: a shorter one would be found everywhere
)

// text returns s without secrets.
func (r *redactor) text(s string) string {
	if len(s) < leastValue {
		return s
	}
	if values := r.values.Load(); r.secrets && values != nil {
		for _, h := range *values {
			if strings.Contains(s, h.text) {
				s = strings.ReplaceAll(s, h.text, r.mark(h.name, h.text))
			}
		}
	}
	if r.secrets || r.looks {
		s = r.tokens(s)
	}
	if r.emails {
		s = r.mails(s)
	}
	return s
}

// clip cuts s after most bytes, between characters, and adds how many bytes were cut.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head := printable.Head(s, most)
	return fmt.Sprintf("%s...[%d bytes cut]", head, len(s)-len(head))
}
