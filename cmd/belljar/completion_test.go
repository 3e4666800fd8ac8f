package main

import (
	"strings"
	"testing"

	"belljar.dev/internal/control"
)

// TestCompletionFits checks that a shell completes values of the right kind where two
// commands have an argument or a flag of one name.
func TestCompletionFits(t *testing.T) {
	state := controlled(t, map[string]any{"GET /browsers": []control.Browser{{ID: "seat-1", Tenant: "a", State: "live"}}})
	for line, want := range map[string]string{
		"browser hold --state " + state: "seat-1\ta live\n:4\n",
		"workspace apply x --as":        ":4\n",
		"policy explain f c --as":       "local\n:4\n",
		"toolkit --format":              "summary\ndetailed\njson\nsarif\njunit\nmarkdown\n:4\n",
		"read --format":                 "markdown\ntext\nhtml\n:4\n",
	} {
		if code, out, _ := ran(append(append([]string{"__complete"}, strings.Fields(line)...), "")...); code != exitOK || out != want {
			t.Errorf("%s: status %d, %q, want %q", line, code, out, want)
		}
	}
}
