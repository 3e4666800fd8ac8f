package mcp

import "belljar.dev/policies"

// refused is the structured result of a call that was not run. Any tool may return it in
// place of its own result, because output schemas require no members.
type refused struct {
	Refusal policies.Refusal `json:"refusal"`
}

// Refused returns the result of a call that was not run, as a text and as a structure.
func Refused(r policies.Refusal) *Result {
	return &Result{Content: []Content{{Text: r.Text()}}, Structured: refused{r}, IsError: true}
}
