package sandbox

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/policies"
)

// TestScriptLine reads first lines as load_script of the kernel does.
func TestScriptLine(t *testing.T) {
	long := "#!/bin/" + strings.Repeat("x", scriptHead)
	for head, want := range map[string][]string{
		"#!/bin/sh\n":                           {"/bin/sh", "./x", "a"},
		"#! \t/bin/sh \t\n":                     {"/bin/sh", "./x", "a"},
		"#!/bin/sh -e -u \nx":                   {"/bin/sh", "-e -u", "./x", "a"},
		"#!/bin/sh\t-e":                         {"/bin/sh", "-e", "./x", "a"},
		"#!/bin/sh":                             {"/bin/sh", "./x", "a"},
		"#!/bin/sh\r\n":                         {"/bin/sh\r", "./x", "a"},
		"#!/bin/sh\x00 -e\n":                    {"/bin/sh", "./x", "a"},
		"#!/bin/sh a\x00b\n":                    {"/bin/sh", "a", "./x", "a"},
		"#!\n":                                  nil,
		"#!  ":                                  nil,
		"# !/bin/sh\n":                          nil,
		"":                                      nil,
		long:                                    nil,
		"#!/bin/sh " + long:                     {"/bin/sh", ("#!/bin/" + strings.Repeat("x", scriptHead))[:scriptHead-1-len("#!/bin/sh ")], "./x", "a"},
		"#!/" + strings.Repeat("y", 252):        {"/" + strings.Repeat("y", 252), "./x", "a"},
		"#!/" + strings.Repeat("y", 252) + "\n": {"/" + strings.Repeat("y", 252), "./x", "a"},
		"#!/" + strings.Repeat("y", 252) + " z": {"/" + strings.Repeat("y", 252), "./x", "a"},
		"#!/" + strings.Repeat("y", 253) + "\n": nil,
		"#!" + strings.Repeat(" ", 300):         nil,
	} {
		e := &policies.Exec{Path: "./x", Argv: []string{"innocent", "a"}}
		var got []string
		if next := script(e, []byte(head)[:min(len(head), scriptHead)]); next != nil {
			got = next.Argv
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: (-want +got) %s", head, diff)
		}
	}
}
