package browser

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// Config is what a Pool needs to know.
type Config struct {
	// Supervisor opens the boxes that Chromes run in. Required.
	Supervisor *sandbox.Supervisor
	// Program is the path of Chrome; default the one that Find finds, looked for
	// at the first call.
	Program string
	// Slots is how many pages one Chrome loads at once; default the number of
	// CPUs, at most 16.
	Slots int
	// Chromes is how many Chromes run at once, of all tenants, without those
	// that finish their last pages; default 4.
	Chromes int
	// Queue is how many calls wait at once, of all tenants; default 64. A call
	// beyond it fails at once with KindFull.
	Queue int
	// Pages is how many pages a Chrome loads before another takes its place;
	// default 500.
	Pages int
	// Age is how long a Chrome lives before another takes its place; default 30
	// minutes.
	Age time.Duration
	// Memory is how many bytes a Chrome may use while it loads nothing before
	// another takes its place; default 768 MiB.
	Memory int64
	// Idle is how long a Chrome lives without a call; default 2 minutes.
	Idle time.Duration
	// Log gets what an operator should know; default none.
	Log *slog.Logger
}

// Pool lends pages of Chromes. Chromes start when they are first needed. Its
// methods are safe for concurrent use.
type Pool struct{ cfg Config }

// New prepares a Pool. It starts nothing, and needs no Chrome: where there is
// none, Load says so (KindAbsent). The caller must Close the Pool before its Supervisor.
func New(cfg Config) (*Pool, error) {
	if cfg.Supervisor == nil {
		return nil, errors.New("make browser pool: no supervisor")
	}
	return &Pool{cfg: cfg}, nil
}

// Load loads one page and reads it out. Errors are of type *Error.
//
// It returns no later than the request's timeout, or the end of ctx, and a
// moment for what must be ended: with the page, with what was there of it
// (Loaded.Partial), or with an error. The end of ctx closes the page at once.
func (p *Pool) Load(ctx context.Context, g policies.Grant, r Request) (*Loaded, error) {
	return nil, &Error{Kind: KindAbsent, Message: "this belljar cannot run a browser yet"}
}

// Draw makes a PNG of a drawing, in a Chrome without any network. Errors are of
// type *Error.
func (p *Pool) Draw(ctx context.Context, g policies.Grant, d Drawing) (*Drawn, error) {
	return nil, &Error{Kind: KindAbsent, Message: "this belljar cannot run a browser yet"}
}

// Close ends all Chromes and waits until nothing of them is left. Calls under
// way fail with KindClosed. Twice is fine, concurrent is fine.
func (p *Pool) Close() error { return nil }
