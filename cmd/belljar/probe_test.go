package main

import (
	"errors"
	"strings"
	"testing"

	"belljar.dev/sandbox/escape"
)

// TestProbedCountsAndPrints checks that a probe whose outcome is not known counts as not
// held, also in the exit status.
func TestProbedCountsAndPrints(t *testing.T) {
	wall := escape.Probe{ID: "F01", Name: "read a file", Category: escape.Filesystem}
	need := escape.Probe{ID: "D03", Name: "use /dev/null", Category: escape.Devices, Works: true}
	tests := []struct {
		name  string
		probe escape.Probe
		o     escape.Outcome
		ok    bool
		want  string
	}{
		{"refused", wall, escape.Outcome{Detail: "EPERM"}, true, "1/1 held"},
		{"through", wall, escape.Outcome{Through: true, Detail: "secret"}, false, "\nTHROUGH F01 read a file\n  found: secret\n  so: a command can read or change files"},
		{"untried", wall, escape.Outcome{Err: errors.New("no prober")}, false, "\nUNTRIED F01 read a file\n  found: no prober\n"},
		{"works", need, escape.Outcome{Through: true}, true, "1/1 held"},
		{"broken", need, escape.Outcome{Detail: "absent"}, false, "\nBROKEN D03 use /dev/null\n  found: absent\n  so: what programs need does not work in the box\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := probed{Profile: "p", Policy: "q"}
			r.add(tt.probe, tt.o)
			var out strings.Builder
			if err := r.print(&out, false); err != nil {
				t.Fatal(err)
			}
			if r.OK != tt.ok || !strings.Contains(out.String(), tt.want) {
				t.Errorf("ok is %v, want %v, and the report lacks %q:\n%s", r.OK, tt.ok, tt.want, &out)
			}
		})
	}
}
