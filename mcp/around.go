package mcp

import (
	"context"
	"errors"
	"time"

	"belljar.dev/policies"
)

// Around runs code before and after the handler of a call that the policy allowed. Its
// methods may be called at the same time. After each Before, After is called once, also
// after a panic.
type Around interface {
	// Before returns a refusal if the call must not run, although the policy allows it; nil
	// lets the call run. ctx ends when the call's context ends.
	Before(ctx context.Context, c Call, f policies.Facts) *policies.Refusal
	// After gets the outcome of the call: a result or an error. What After returns is added
	// after the result; after an error it is dropped.
	After(ctx context.Context, c Call, f policies.Facts, o Outcome) Beside
}

// Beside is what Around adds after a result, without the tool's knowledge.
type Beside struct {
	Content  []Content
	Receipts []Receipt // receipts for the result with this content
}

// Outcome is how a call that the policy allowed has ended.
type Outcome struct {
	Result  *Result // nil if Err is set
	Err     error
	Refused bool // Before has refused the call
	Took    time.Duration
}

// errPanicked is the error in the outcome of a handler that panicked.
var errPanicked = errors.New("the tool stopped unexpectedly")
