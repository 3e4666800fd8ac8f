package policies_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/policies"
)

var update = flag.Bool("update", false, "rewrite the golden files of testdata")

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// head is a whole policy but for its rules.
const head = `version: 1
defaults: {decision: ask, profile: offline}
profiles:
  offline: {fs: {system: true, workspace: rw}, env: {CI: "1"}}
  readonly: {fs: {system: true, workspace: ro}}
  net: {fs: {system: true, workspace: rw}, limits: {memory: 1GiB}}
`

func parse(t testing.TB, text string) *policies.Policy {
	t.Helper()
	p, err := policies.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// faults parses a text that is wrong.
func faults(t *testing.T, text string) *policies.ParseError {
	t.Helper()
	p, err := policies.Parse("policy.yaml", []byte(text))
	var e *policies.ParseError
	if !errors.As(err, &e) || p != nil {
		t.Fatalf("Parse(%q): got %v, %v; want a *ParseError", text, p, err)
	}
	return e
}

func bash(command string) policies.Facts {
	return policies.Facts{Tenant: "t", Tool: "Bash", Command: command}
}
