package policies_test

import (
	"errors"
	"testing"

	"belljar.dev/policies"
)

// head is a whole policy except its rules.
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

// faults parses a text with faults and returns the error.
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
