package mcp

import (
	"github.com/google/jsonschema-go/jsonschema"

	"belljar.dev/policies"
)

// refusalMember is the member of structuredContent that holds a refusal. The
// output schema of every tool has it: clients check an error's
// structuredContent against that schema too (2025-11-25, "Output Schema").
const refusalMember = "refusal"

// refused is the structured result of a call that was not run.
type refused struct {
	Refusal policies.Refusal `json:"refusal"`
}

// Refused is the result for a call that was not done, in words and as a
// structure.
func Refused(r policies.Refusal) *Result {
	return &Result{Content: []Content{{Text: r.Text()}}, Structured: refused{r}, IsError: true}
}

// withRefusal lets the output schema of a tool describe what Refused makes: a
// result has all that the tool promises, or the refusal. A tool may have the
// member itself, for what was blocked while it worked. The members stay where
// clients look that do not know anyOf.
func withRefusal(s *jsonschema.Schema, alone []string) error {
	if s.Properties == nil {
		s.Properties = make(map[string]*jsonschema.Schema)
	}
	if s.Properties[refusalMember] == nil {
		s.Properties[refusalMember] = &jsonschema.Schema{Type: "object", Description: "why the call was not run; then nothing else is there"}
	}
	// Every tool has the member, so its own members are not told each time: they
	// would be half of what tools/list sends. docs/policy.md has them.
	short := &jsonschema.Schema{Type: "object", Description: s.Properties[refusalMember].Description, Required: []string{"decision", "layer", "reason", "retry"}}
	s.Properties[refusalMember] = short
	if len(s.Required) > 0 {
		s.AnyOf = []*jsonschema.Schema{{Required: s.Required}}
		for _, member := range append([]string{refusalMember}, alone...) {
			s.AnyOf = append(s.AnyOf, &jsonschema.Schema{Required: []string{member}})
		}
		s.Required = nil
	}
	return nil
}
