package mcp

import (
	"context"
	"time"

	"belljar.dev/policies"
)

// Audit keeps records of calls. Its methods may be called at the same time.
type Audit interface {
	// Decided records the decision about a call, before the call runs. It may block
	// until the record is on the disk. If it returns an error, the call is refused.
	Decided(ctx context.Context, d Decided) error
	// Finished records the end of a call that was allowed, unless Decided returned an
	// error.
	Finished(f Finished)
}

// Decided is a call and the policy's decision. A call with unreadable arguments never
// reaches the policy: its rule is RuleArguments, and its facts contain only the caller and
// the tool.
type Decided struct {
	Call     Call // without its Grant, which is in the Decision
	Facts    policies.Facts
	Decision policies.Decision
	Approval *Approval     // what a person was asked and answered; nil if nobody was asked
	Took     time.Duration // time to read the arguments and to decide, including the wait for a person
}

// Finished is a call that has ended: with a Result, which may have IsError set, or with an
// error.
type Finished struct {
	Call   Call
	Result *Result
	Err    error
	Took   time.Duration // time of the whole call
	// Decision is the policy's decision, the same that Decided got.
	Decision policies.Decision
}

// Usage is what a command used, and how it ended.
type Usage struct {
	Exit       *int // exit code; nil if no command ended
	Signal     string
	OOM        bool
	TimedOut   bool
	TaskID     int64 // ID of a background job; 0 without a job
	Output     int64 // bytes
	Truncated  bool  // the result shows less than the whole output
	CPU        time.Duration
	PeakMemory int64 // bytes
	Reverted   int   // number of changes to protected paths that were reverted
	Blocked    int   // number of connections that were refused during the command
	Execs      []Exec
	ExecsMore  int // number of programs that are not in Execs
}

// Exec is a program that a command started, or that the policy did not allow it to start.
type Exec struct {
	Argv    []string // command, of at most 32 words and 1 KiB
	Path    string   // path of the file, if its name is not that of Argv[0]
	Cut     bool     // Argv does not contain all words, or not all of a word
	Verdict string   // verdict of the policy
	Rule    string
	Stopped bool
	Count   int // number of times that it was started with the same words
}

// Measured is implemented by a Result.Structured that contains what its command used.
type Measured interface{ Usage() Usage }

// The rules of decisions that no policy made.
const (
	RuleArguments = "arguments" // the arguments could not be read
	RuleAudit     = "audit"     // the decision could not be recorded
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
	if ctx.Err() == nil { // an error of a cancelled call says nothing about the log
		g.cfg.Log.Error("a call is refused: its decision cannot be written to the audit log", "call", c.ID, "tool", c.Tool, "error", err)
	}
	return policies.Decision{
		Verdict: policies.Deny, Rule: RuleAudit,
		Reason:  "Each decision must be written to the audit log before a call runs, and the log cannot be written now.",
		Instead: "Tell the person you work for: belljar's own log states the cause, for example a full disk. Then try again.",
	}
}

// recordUnreadable writes the record of a call whose arguments cannot be read. The call is
// refused in any case.
func (g *callGate) recordUnreadable(ctx context.Context, c Call, started time.Time, err error) {
	g.recordDecision(ctx, c, started,
		policies.Facts{Tenant: c.Session.tenant, Session: c.Session.id, Tool: c.Tool, Upstream: c.Upstream},
		policies.Decision{Verdict: policies.Deny, Rule: RuleArguments, Reason: err.Error()}, nil)
}
