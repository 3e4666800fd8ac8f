package mcp

import (
	"context"
	"errors"
	"time"

	"belljar.dev/policies"
)

// Around stands between the policy's yes and the handler of a call. It is called
// from many goroutines. Each Before is followed by one After, whatever happens.
type Around interface {
	// Before may refuse a call that the policy allows; nil lets the call run. ctx
	// ends when the call's context does.
	Before(ctx context.Context, c Call, f policies.Facts) *policies.Refusal
	// After gets the outcome of the call: a result, or an error. The agent sees
	// what After returns behind the result; with an error it is dropped.
	After(ctx context.Context, c Call, f policies.Facts, o Outcome) Beside
}

// Beside is what Around adds behind a result, and the tool does not know of.
type Beside struct {
	Content  []Content
	Receipts []Receipt // of the result with this content
}

// Outcome is how a call ended that the policy allowed.
type Outcome struct {
	Result  *Result // nil if Err is set
	Err     error
	Refused bool // by Before
	Took    time.Duration
}

// errPanicked is the outcome of a handler that panicked.
var errPanicked = errors.New("the tool stopped unexpectedly")
