package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// Call runs a tool in this process, through the same gate as a client's call. args is the
// JSON object of the arguments; empty means no arguments. Call returns an error only if the
// tool does not exist or the session has ended. A call that is refused or fails returns a
// Result.
func (s *Server) Call(ctx context.Context, session *Session, name string, args json.RawMessage) (*Result, error) {
	return s.gate.call(ctx, session, toolCall{name: name, args: args, structured: true})
}

// toolCall is a tools/call in the form in which every transport passes it to the gate. The
// zero values of all fields except name are those of a call of this process.
type toolCall struct {
	name       string
	args       json.RawMessage // JSON object of the arguments; empty means none
	patience   time.Duration   // how long the client waits for the answer; zero means no limit
	progress   progressFunc    // nil if the client wants no progress reports
	logs       *callLogs       // nil if the client wants no log messages
	parent     TraceParent     // span that the call belongs to
	input      *input          // nil in the legacy era
	depth      int             // number of servers like this one that the call has passed; see wire.Depth
	structured bool            // the client gets the structured part of the result
	bare       bool            // the client gets only the structured part; see method.go
	out        *outgoing       // the answer, which reports to the receipts of its result; may be nil
	// cancel ends the context of the call, if its transport has made one for the call alone.
	cancel context.CancelCauseFunc
}

// code returns the code of the JSON-RPC error with which the call is answered; 0 if it is
// answered with a result.
func (c toolCall) code(err error) int {
	bad, ok := errors.AsType[*wire.Error](err)
	switch {
	case !ok:
		return 0
	case c.input == nil:
		return int(bad.Code(wire.Legacy))
	}
	return int(bad.Code(wire.Modern))
}

// callGate is the gate around a call: no tool runs, and no resource that the policy decides
// about is read, except through its methods call and granted.
type callGate struct {
	cfg      *Config
	tools    *toolset
	sealer   *sealer
	meter    *meter
	surveyor Surveyor // nil if questions show only the facts of the call
}

// hides reports whether a tool is hidden from a caller: because of its token, its session
// or its tenant.
func (g *callGate) hides(ctx context.Context, session *Session, t *tool) bool {
	return missing(g.cfg.Auth, g.cfg.callerOf(ctx), t.info.Name, "") != nil || g.tools.hides(session, t)
}

// call runs one tools/call of any transport: find, verify the answers that the client
// brought, decode, gate, run, answer. The result has the form that the client wants. After
// an error, the caller must report the answer as lost to call.out.
func (g *callGate) call(ctx context.Context, session *Session, call toolCall) (*Result, error) {
	t, ok := g.find(ctx, session, call.name)
	if !ok {
		return nil, g.tools.unknown(session.tenant, call.name, func(t *tool) bool { return g.hides(ctx, session, t) })
	}
	if call.input != nil {
		if err := g.sealer.open(call.input, session, t.info.Name, call.args); err != nil {
			return nil, err
		}
	}
	sent, served := call.parent, servedIn(ctx) // the span of the request needs the parent that its client sent
	call.parent = served.parentOf(sent)
	c := g.newCall(ctx, session, t, call)
	call.out.called()
	if call.cancel == nil {
		ctx, call.cancel = context.WithCancelCause(ctx)
	}
	if err := session.begin(c.ID, call.cancel); err != nil {
		return nil, wire.Errorf(wire.InternalError, "%v", err)
	}
	defer session.finish(c.ID)
	started := time.Now()
	if call.progress != nil {
		c.Progress = call.progress.until(ctx)
	}
	served.began(c, sent)
	res, d, err := g.decodeAndRun(ctx, t, c, call.args)
	if args, ok := errors.AsType[*argumentError](err); ok && call.bare {
		err = wire.Errorf(wire.InvalidParams, "invalid params: %s", strings.Join(args.faults, "; "))
	}
	g.report(ctx, Traced{Call: c, Decision: d, Result: res, Err: err, Code: call.code(err), Start: started, Parent: call.parent})
	if res, err = g.finalResult(ctx, c, call, d, res, err); err != nil {
		return nil, err
	}
	return res.shown(call.structured, call.input == nil)
}

// newCall returns what is known of a call before it is decoded.
func (g *callGate) newCall(ctx context.Context, session *Session, t *tool, call toolCall) Call {
	c := Call{
		ID: NewCallID(), Session: session, Tool: t.info.Name, Patience: call.patience, TraceID: call.parent.TraceID, Depth: call.depth,
		Detached: detachedIn(ctx), Progress: withoutProgress, input: call.input, logs: call.logs,
	}
	if t.upstream != nil {
		c.Upstream, c.from = t.upstream.name, t.upstream
	}
	if later := deferredIn(ctx); later != nil {
		c.Later = later.call.Key
	}
	if g.cfg.Trace != nil {
		startTrace(&c)
	}
	return c
}

// report records the end of a call in the trace, the audit log and the log.
func (g *callGate) report(ctx context.Context, end Traced) {
	took := time.Since(end.Start)
	if g.cfg.Trace != nil {
		g.endTrace(end)
	}
	if g.cfg.Audit != nil && end.Decision.Verdict == policies.Allow {
		g.cfg.Audit.Finished(Finished{Call: end.Call, Result: end.Result, Err: end.Err, Took: took, Decision: end.Decision})
	}
	if g.cfg.Log.Enabled(ctx, slog.LevelDebug) { // the arguments of Debug are most of a small call's allocations
		g.cfg.Log.Debug("call", "call", end.Call.ID, "trace", end.Call.TraceID, "session", end.Call.Session.id, "tool", end.Call.Tool, "verdict", end.Decision.Verdict.String(),
			"rule", end.Decision.Rule, "failed", end.Err != nil || end.Result.IsError, "took", took, "error", end.Err)
	}
}

// finalResult returns what the client gets for a call that ended with res or err.
func (g *callGate) finalResult(ctx context.Context, c Call, call toolCall, d policies.Decision, res *Result, err error) (*Result, error) {
	bad, isWire := errors.AsType[*wire.Error](err)
	forms := c.input.asks()
	switch {
	case isWire:
		return nil, g.redactError(bad, d)
	case len(forms) > 0 && err == nil:
		res.lost(ctx)
		return &Result{needs: g.sealer.needsOf(c, call.args, forms)}, nil
	case err != nil:
		res = failure(ctx, c.Tool, c.ID, err)
	}
	later := deferredIn(ctx)
	clean := res
	if len(d.Redact) > 0 {
		clean = g.redactResult(res, d)
	}
	if clean.Upstream != "" {
		clean = clean.shortened(textMost)
	}
	switch {
	case len(res.Receipts) == 0:
	case clean.Receipts == nil: // another result replaced it, and states why
		res.lost(ctx)
	case later.told() || ctx.Err() != nil:
		clean.lost(ctx) // the client has a handle and may never fetch the result, or it cancelled the call
	default:
		call.out.add(ctx, clean.Receipts)
	}
	if d.Verdict == policies.Allow {
		return clean.with(warningsOf(d)), nil
	}
	return clean, nil
}

// find returns the tool that a session calls by a name. If the tool is missing, find
// gathers the session's tools and looks again.
func (g *callGate) find(ctx context.Context, session *Session, name string) (*tool, bool) {
	t, ok := g.tools.find(session.tenant, name)
	if !ok && g.cfg.Gather != nil {
		g.cfg.Gather(ctx, session)
		t, ok = g.tools.find(session.tenant, name)
	}
	return t, ok
}

// lost notifies the receipts of a result that the result is not sent.
func (r *Result) lost(ctx context.Context) {
	tell(ctx, r.Receipts, false)
}

// warningsOf returns the policy's warnings about a call that it allowed.
func warningsOf(d policies.Decision) (all Beside) {
	for _, line := range d.Warnings {
		all.Content = append(all.Content, Content{Text: line})
	}
	return all
}

// decodeAndRun decodes, decides and runs. If one of these panics, only this call fails.
func (g *callGate) decodeAndRun(ctx context.Context, t *tool, c Call, args json.RawMessage) (res *Result, d policies.Decision, err error) {
	defer func() { g.recovered(recover(), c, &res, &err) }()
	started := time.Now()
	in, all, err := t.decode(args, g.cfg.Limits.Depth)
	var f policies.Facts
	if err == nil {
		f, err = g.prepared(ctx, t, c, in, all)
	}
	if err != nil && !g.hides(ctx, c.Session, t) { // a hidden tool is denied whatever its arguments are
		g.recordUnreadable(ctx, c, started, err)
		return nil, d, err
	}
	g.addFacts(ctx, t, c, started, &f)
	d, asked, refusal, leave := g.decide(ctx, c, &f)
	defer leave()
	if len(d.Redact) > 0 {
		d = g.refuseUnredactable(d)
		c.Progress, c.redact = withoutMessages(c.Progress), d.Redact
	}
	if g.cfg.Audit != nil {
		d = g.recordDecision(ctx, c, started, f, d, asked)
	}
	switch {
	case refusal != nil:
		return Refused(*refusal), d, nil
	case d.Verdict != policies.Allow:
		return Refused(d.Denied(c.ID)), d, nil
	}
	c.Grant, c.Audit, c.Scene, c.Acts = d.Grant, d.Audit, f.Scene, f.Acts
	f.Args = all
	if g.cfg.Approver != nil {
		c.allowed = &allowed{f, d}
	}
	res, err = g.runBetweenHooks(ctx, t, c, f, in, started)
	return res, d, err
}

// leastPatience is the time that a handler gets if the client has waited for a person or a
// hook for as long as it is expected to wait. Common clients wait for 15 s more than
// Config.Patience.
const leastPatience = 5 * time.Second

// patienceLeft returns how long the client of a call still waits when the handler starts, if it
// waits for most and has waited since started. Only whole seconds count. Zero means that
// the client waits as long as the call takes.
func patienceLeft(most time.Duration, started time.Time) time.Duration {
	if waited := time.Since(started).Round(time.Second); most > 0 && waited > 0 {
		return max(most-waited, min(most, leastPatience))
	}
	return most
}

// runBetweenHooks runs the handler of an allowed call, between Around's Before and After.
// The call was read at the time started.
func (g *callGate) runBetweenHooks(ctx context.Context, t *tool, c Call, f policies.Facts, in Gated, started time.Time) (res *Result, err error) {
	around := g.cfg.Around
	if around == nil || c.from != nil && c.from.unguarded {
		c.Patience = patienceLeft(c.Patience, started)
		return t.handle(ctx, c, in)
	}
	began := time.Now()
	over := Outcome{Err: errPanicked}
	var more Beside
	func() {
		// The inner function lets After run before a panic continues.
		defer func() {
			over.Took = time.Since(began)
			more = around.After(ctx, c, f, over)
		}()
		if refusal := around.Before(ctx, c, f); refusal != nil {
			res = Refused(*refusal)
			over.Refused = true
		} else {
			c.Patience = patienceLeft(c.Patience, started)
			res, err = t.handle(ctx, c, in)
		}
		over.Result, over.Err = res, err
	}()
	if err != nil {
		tell(ctx, more.Receipts, false)
		return res, err
	}
	return res.with(more), nil
}

// with returns r with more added at its end.
func (r *Result) with(more Beside) *Result {
	if len(more.Content) == 0 && len(more.Receipts) == 0 {
		return r
	}
	with := *r // a copy, because the result belongs to the handler
	with.Content = append(slices.Clone(r.Content), more.Content...)
	with.Receipts = append(slices.Clone(r.Receipts), more.Receipts...)
	return &with
}

// prepared returns the facts of a call: those of its arguments, or those that the tool's
// Preparer finds. The Preparer does not run for a call of a hidden tool, which is denied in
// any case.
func (g *callGate) prepared(ctx context.Context, t *tool, c Call, in Gated, all map[string]any) (policies.Facts, error) {
	f := in.Facts()
	f.Args = nil
	if t.prepare != nil && !g.hides(ctx, c.Session, t) {
		var err error
		if f, err = t.prepare(ctx, c, in); err != nil {
			return f, err
		}
	}
	if f.Args == nil {
		f.Args = all
	}
	return f, nil
}

// recovered turns a panic of a call into an error of this call.
func (g *callGate) recovered(p any, c Call, res **Result, err *error) {
	if p != nil {
		g.cfg.Log.Error("a tool panicked", "call", c.ID, "tool", c.Tool, "panic", p, "stack", string(debug.Stack()))
		*res, *err = nil, &panicError{c.ID}
	}
}

// panicError is the error of a call that panicked. The agent does not get the text of the
// panic, which may contain what the agent must not see.
type panicError struct{ call string }

func (e *panicError) Error() string {
	return fmt.Sprintf("internal error in call %s: the tool stopped unexpectedly; the server is still running, and its log states the cause", e.call)
}

// failure returns the answer to a call that returned an error.
func failure(ctx context.Context, name, id string, err error) *Result {
	var args *argumentError
	switch {
	case errors.As(err, &args):
		if len(args.faults) == 1 {
			return Failed("call of %s not run: %s", name, args.faults[0])
		}
		return Failed("call of %s not run:\n- %s", name, strings.Join(args.faults, "\n- "))
	case ctx.Err() != nil && sessionOver(context.Cause(ctx)):
		return soFar(err, Failed("call %s of %s was ended: %v", id, name, context.Cause(ctx)))
	case ctx.Err() != nil:
		return soFar(err, Failed("call %s of %s was cancelled: %v", id, name, err))
	}
	return Failed("%s", err.Error())
}

// Interrupted is the error of a call that was cancelled after it had produced output. The
// answer contains the output; the log contains only the cause.
type Interrupted struct {
	Cause  error
	Output string // output so far, as the tool shows it
}

func (e *Interrupted) Error() string { return e.Cause.Error() }

func (e *Interrupted) Unwrap() error { return e.Cause }

// soFar returns the answer to a cancelled call, with its output so far.
func soFar(err error, r *Result) *Result {
	var i *Interrupted
	if errors.As(err, &i) && i.Output != "" {
		r.Content = append([]Content{{Text: i.Output}}, r.Content...)
	}
	return r
}

// progressFunc sends one progress report; nil if the client wants none.
type progressFunc func(done, total float64, message string)

// withoutProgress is Call.Progress if the client wants no progress reports.
func withoutProgress(float64, float64, string) {}

// until returns a function that calls p as long as ctx lives: a cancelled request gets no
// further message.
func (p progressFunc) until(ctx context.Context) func(done, total float64, message string) {
	return func(done, total float64, message string) {
		if ctx.Err() == nil {
			p(done, total, message)
		}
	}
}
