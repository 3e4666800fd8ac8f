package approval

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files of testdata")

// What an agent is told of patterns that no plan can have.
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
	golden := filepath.Join("testdata", "commands.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("what is said has changed (-want +got):\n%s", diff)
	}
}
