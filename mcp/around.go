package mcp

import (
	"context"
	"errors"
	"slices"
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

// runBetweenHooks runs the handler of an allowed call, between Around's Before and After.
func (g *callGate) runBetweenHooks(ctx context.Context, t *tool, c Call, f policies.Facts, in Gated) (res *Result, err error) {
	around := g.cfg.Around
	if around == nil || c.from != nil && c.from.unguarded {
		return t.run(ctx, c, in)
	}
	began := time.Now()
	over := Outcome{Err: errPanicked}
	var more Beside
	func() {
		// In a function of its own: a panic passes on when After has returned.
		defer func() {
			over.Took = time.Since(began)
			more = around.After(ctx, c, f, over)
		}()
		if refusal := around.Before(ctx, c, f); refusal != nil {
			res = Refused(*refusal)
			over.Refused = true
		} else if res, err = t.run(ctx, c, in); err == nil && res == nil {
			res = &Result{}
		}
		over.Result, over.Err = res, err
	}()
	if err != nil {
		tell(ctx, more.Receipts, false)
		return res, err
	}
	if len(more.Content) > 0 || len(more.Receipts) > 0 {
		with := *res // what a handler returned is its own
		with.Content = append(slices.Clone(res.Content), more.Content...)
		with.Receipts = append(slices.Clone(res.Receipts), more.Receipts...)
		res = &with
	}
	return res, nil
}
