package approval

import (
	"strings"
	"testing"

	"belljar.dev/internal/golden"
)

// The errors that an agent reads about patterns that a plan cannot have.
func TestCommandsThatCannotBeGranted(t *testing.T) {
	var b strings.Builder
	for _, patterns := range [][]string{
		make([]string, maxCommands+1),
		{strings.Repeat("x", maxCommand+1)},
		{"* push"},
		{"bash *"},
		{"bash"},
		{"git push **x"},
		{"git {push"},
	} {
		err := CheckCommands(patterns)
		if err == nil {
			t.Errorf("%q can be granted", patterns)
			continue
		}
		b.WriteString(err.Error() + "\n")
	}
	golden.Equal(t, "commands.golden", b.String())
}
