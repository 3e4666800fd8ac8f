package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program returns the path of the belljar that scripts/chart has built.
func program(t *testing.T) string {
	t.Helper()
	name := os.Getenv("BELLJAR_TEST_PROGRAM")
	if name == "" {
		t.Skip("make test-chart runs it, with the program")
	}
	return name
}

// takes checks that belljar has the command and the flags of a command line. With --help,
// belljar parses all flags and does nothing else.
func takes(t *testing.T, where string, args []string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), program(t), append(args, "--help")...).CombinedOutput(); err != nil {
		t.Errorf("%s: belljar %s: %v: %s", where, strings.Join(args, " "), err, out)
	}
}

// belljar accepts the command lines in the systemd units and in the services of the compose
// file.
func TestCommandLines(t *testing.T) {
	program(t)
	units, err := filepath.Glob("../../docs/systemd/*.service")
	if err != nil || len(units) < 3 {
		t.Fatalf("%v: %v", units, err)
	}
	for _, unit := range units {
		data, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for line := range strings.Lines(string(data)) {
			if command, ok := strings.CutPrefix(line, "ExecStart=/usr/local/bin/belljar "); ok {
				found = true
				takes(t, filepath.Base(unit), strings.Fields(command))
			}
		}
		if !found {
			t.Errorf("%s starts no belljar", unit)
		}
	}
	for _, file := range []string{"compose.yaml", "compose.fronts.yaml"} {
		for _, compose := range decode(t, "../../docs/compose/"+file) {
			services := part(any(compose), "services")
			if len(services) < 3 {
				t.Errorf("%s has %d services, want a front and two workers", file, len(services))
			}
			for name, s := range services {
				var args []string
				for _, a := range list(s, "command") {
					args = append(args, fmt.Sprint(a))
				}
				if name != "nats" {
					takes(t, file+", "+name, args)
				}
			}
		}
	}
}
