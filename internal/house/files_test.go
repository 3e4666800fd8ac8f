package house

import (
	"regexp"
	"strings"
	"testing"
)

// maxLines is the most lines of a file of code: a longer file has several concepts.
const maxLines = 600

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func TestFilesAreShort(t *testing.T) {
	for _, name := range sources(t) {
		text := read(t, name)
		if n := strings.Count(text, "\n"); n > maxLines && !generated.MatchString(text) {
			t.Errorf("%s has %d lines, want at most %d: it has several concepts", name, n, maxLines)
		}
	}
}
