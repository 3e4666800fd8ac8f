package main

import (
	"bytes"
	"strings"
	"testing"

	"belljar.dev/internal/control"
)

// TestLogCutsIDs checks that logs contain only cut ids: over HTTP, the whole id of a
// session gives access to it, and more people read a log than may have that access.
func TestLogCutsIDs(t *testing.T) {
	const id = "s-7Q2XAB3LMNOPQRSTUVWXYZ234567"
	for _, format := range []string{logText, logJSON} {
		var out bytes.Buffer
		log, err := logging{format: format}.logger(&out, false)
		if err != nil {
			t.Fatal(err)
		}
		log.With("session", id).Warn("w", "box", id+"-p")
		if got := out.String(); strings.Contains(got, id) || strings.Count(got, control.ShortID(id)) != 2 || !strings.Contains(got, control.ShortID(id)+"-p") {
			t.Errorf("%s: got %s, want %s twice, once with -p", format, got, control.ShortID(id))
		}
		out.Reset()
		log.Warn("w", "box", "upstream-ABCDEFGH")
		if got := out.String(); !strings.Contains(got, "upstream-ABCDEFGH") {
			t.Errorf("%s: got %s, want the whole id of a box that belongs to no session", format, got)
		}
	}
}
