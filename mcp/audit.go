package mcp

import (
	"context"
	"time"

	"belljar.dev/policies"
)

// Audit keeps records of calls. It is called from many goroutines.
type Audit interface {
	// Decided records the decision about a call, before the call runs. It may block
	// until the record is on the disk. If it returns an error, the call is refused.
	Decided(ctx context.Context, d Decided) error
	// Finished records the end of a call that was allowed, and that Decided did not
	// refuse.
	Finished(f Finished)
}

// Decided is a call and the policy's decision. A call with arguments that cannot be
// read never reaches the policy: its rule is RuleArguments, and its facts say only
// whose call it is.
type Decided struct {
	Call     Call // without its Grant, which is the Decision's
	Facts    policies.Facts
	Decision policies.Decision
	Approval *Approval     // what a person was asked and said; nil for none
	Took     time.Duration // to read the arguments and to decide, with the wait for a person
}

// Finished is a call that has ended: with a Result, which may have IsError set, or
// with an error.
type Finished struct {
	Call   Call
	Result *Result
	Err    error
	Took   time.Duration // of the whole call
	// Decision is the policy's decision, the one that Decided got.
	Decision policies.Decision
}

// Usage is what a command used, and how it ended.
type Usage struct {
	Exit       *int // nil where no command ended
	Signal     string
	OOM        bool
	TimedOut   bool
	TaskID     int64 // of a background job, or 0
	Output     int64 // bytes
	Truncated  bool  // the result shows less than Output
	CPU        time.Duration
	PeakMemory int64 // bytes
	Reverted   int   // changes to protected paths that were taken back
	Blocked    int   // connections that were refused meanwhile
	Execs      []Exec
	ExecsMore  int // number of programs beyond those
}

// Exec is a program that a command started, or that the policy did not let
// start.
type Exec struct {
	Argv    []string // at most 32 words and 1 KiB
	Path    string   // the file, where its name is not that of Argv[0]
	Cut     bool     // there were more words, or longer ones
	Verdict string   // of the policy
	Rule    string
	Stopped bool
	Count   int // how often, with the same words
}

// Measured is implemented by a Result.Structured that knows what its command used.
type Measured interface{ Usage() Usage }

// The rules of decisions that no policy made.
const (
	RuleArguments = "arguments" // the arguments could not be read
	RuleAudit     = "audit"     // the decision could not be written down
)

// recordDecision writes the decision to the audit log and returns it. If it cannot be
// written, the call is refused instead.
func (g *callGate) recordDecision(ctx context.Context, c Call, started time.Time, f policies.Facts, d policies.Decision, a *Approval) policies.Decision {
	if g.cfg.Audit == nil {
		return d
	}
	err := g.cfg.Audit.Decided(ctx, Decided{Call: c, Facts: f, Decision: d, Approval: a, Took: time.Since(started)})
	if err == nil || d.Verdict != policies.Allow {
		return d
	}
	if ctx.Err() == nil { // one that was cancelled meanwhile says nothing about the log
		g.cfg.Log.Error("a call is refused: its decision cannot be written to the audit log", "call", c.ID, "tool", c.Tool, "error", err)
	}
	return policies.Decision{
		Verdict: policies.Deny, Rule: RuleAudit,
		Reason:  "What is decided must be written to the audit log before it is done, and the log cannot be written now.",
		Instead: "Tell the person you work for: belljar's log gives the cause, for example a full disk. Then try again.",
	}
}

// recordUnreadable writes the record of a call whose arguments cannot be read. The call is
// refused in any case.
func (g *callGate) recordUnreadable(ctx context.Context, c Call, started time.Time, err error) {
	g.recordDecision(ctx, c, started,
		policies.Facts{Tenant: c.Session.tenant, Session: c.Session.id, Tool: c.Tool, Upstream: c.Upstream},
		policies.Decision{Verdict: policies.Deny, Rule: RuleArguments, Reason: err.Error()}, nil)
}
