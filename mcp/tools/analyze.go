package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"belljar.dev/internal/toolkit"
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

const (
	// analysisMost bounds how long an analysis may take, if the grant lets a command run
	// longer.
	analysisMost = 2 * time.Minute
	// replyTime is how long before the client's deadline an analysis answers with the
	// results that it has.
	replyTime = time.Second
	// leaveTime is how long the helper may take to end after its answer.
	leaveTime = 2 * time.Second
)

// analyses contains the tools that measure source code. A helper, which is this program,
// measures in the session's box: the server opens no file of the workspace.
type analyses struct{ shells *shells }

// addAnalyses registers the tools that measure source code.
func addAnalyses(s *mcp.Server, sh *shells) {
	a := &analyses{sh}
	addToolkitTool(s, mcp.Tool{
		Name: analyzeComplexity, Title: "Measure complexity", Output: toolkit.ComplexityResult{},
		Description: "Finds functions that are too complex, and ranks files.",
	}, analyze[toolkit.Complexity, *toolkit.Complexity, toolkit.ComplexityResult](a))
	addToolkitTool(s, mcp.Tool{
		Name: analyzeCodeChurn, Title: "Measure churn", Output: toolkit.ChurnResult{},
		Description: "Lists the files that changed most, by the git history.",
	}, analyze[toolkit.Churn, *toolkit.Churn, toolkit.ChurnResult](a))
	addToolkitTool(s, mcp.Tool{
		Name: analyzeDeepContext, Title: "Map a code base", Output: toolkit.ContextResult{},
		Description: "Draws a map of a code base that fits max_tokens: what it declares, the most used first; with hotspots. Start here in a new project.",
	}, analyze[toolkit.Context, *toolkit.Context, toolkit.ContextResult](a))
	addToolkitTool(s, mcp.Tool{
		Name: analyzeDuplicates, Title: "Find copied code", Output: toolkit.DuplicatesResult{},
		Description: "Finds copied code. With snippet, finds where such code already exists; call it before you write a helper.",
	}, analyze[toolkit.Duplicates, *toolkit.Duplicates, toolkit.DuplicatesResult](a))
	addToolkitTool(s, mcp.Tool{
		Name: analyzeDefectProbability, Title: "Rank files by risk", Output: toolkit.DefectsResult{},
		Description: "Ranks files by measures that correlate with defects. It gives no probability, since no model for one is proven.",
	}, analyze[toolkit.Defects, *toolkit.Defects, toolkit.DefectsResult](a))
	addToolkitTool(s, mcp.Tool{
		Name: analyzeComprehensive, Title: "Measure everything", Output: toolkit.ComprehensiveResult{},
		Description: "Complexity, copied and dead code, admitted debt and risk in one result.",
	}, analyze[toolkit.Comprehensive, *toolkit.Comprehensive, toolkit.ComprehensiveResult](a))
	addToolkitTool(s, mcp.Tool{
		Name: analyzeGraphMetrics, Title: "Measure dependencies", Output: toolkit.GraphResult{},
		Description: "Shows which packages and files matter most by what imports them, and cycles of imports.",
	}, analyze[toolkit.Graph, *toolkit.Graph, toolkit.GraphResult](a))
	addToolkitTool(s, mcp.Tool{
		Name: analyzeNameSimilarity, Title: "Find similar names", Output: toolkit.NamesResult{},
		Description: "Finds functions, types and variables with a similar name.",
	}, analyze[toolkit.Names, *toolkit.Names, toolkit.NamesResult](a))
	addToolkitTool(s, mcp.Tool{
		Name: qualityGate, Title: "Judge a change", Output: toolkit.GateResult{},
		Description: "Passes or fails a code base on complexity, copies and coverage. With base, judges only what changed since base.",
	}, analyze[toolkit.Gate, *toolkit.Gate, toolkit.GateResult](a))
}

// analyze returns the handler of one analysis.
func analyze[In mcp.Gated, Args interface {
	*In
	toolkit.Args
}, Out any](a *analyses) mcp.Handler[In] {
	return func(ctx context.Context, call mcp.Call, in In) (*mcp.Result, error) {
		return a.run(ctx, call, Args(&in), new(Out))
	}
}

// analysed is the structured result of an analysis.
type analysed struct {
	value any
	usage mcp.Usage
	text  string // text of the helper, without belljar's additions
	from  *sandbox.Output
}

// Report is the result of an analysis, for people and programs that do not read the result
// of a tool.
type Report interface {
	// Text returns the text of the analysis.
	Text() string
	// Whole returns the result in the requested format; for the text format it returns
	// JSON.
	Whole() ([]byte, error)
}

// Text returns the text of the analysis.
func (a analysed) Text() string { return a.text }

// Whole returns the output of the helper.
func (a analysed) Whole() (all []byte, err error) {
	for at := int64(0); at < a.from.Size(); {
		part, next, lost, err := a.from.Read(at, maxRange)
		switch {
		case err != nil:
			return nil, err
		case lost > 0 || next == at:
			return nil, fmt.Errorf("the result has %d bytes, more than the policy lets a command print", a.from.Size())
		}
		all, at = append(all, part...), next
	}
	return all, nil
}

// MarshalJSON returns the helper's result unchanged.
func (a analysed) MarshalJSON() ([]byte, error) { return json.Marshal(a.value) }

// Usage returns for the audit log what the helper used.
func (a analysed) Usage() mcp.Usage { return a.usage }

// run starts the helper, and reads its answer into out.
func (a *analyses) run(ctx context.Context, call mcp.Call, args toolkit.Args, out any) (*mcp.Result, error) {
	if err := args.Check(); err != nil {
		return mcp.Failed("%s. %s", err, nothingMeasured), nil
	}
	text, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	// These are the facts that the policy saw when it decided the call.
	own := args.Facts()
	own.Tool = call.Tool
	if err := json.Unmarshal(text, &own.Args); err != nil {
		return nil, err
	}
	if call.Grant.Workspace() == policies.AccessNone {
		return mcp.Refused(policies.Block{
			Reason: fmt.Sprintf("profile %q has no workspace to measure", call.Grant.Profile()), Ran: nothingMeasured,
			Instead: "Instead: ask the person you work for to let the policy grant this tool a profile with a workspace.",
		}.Refusal()), nil
	}
	starting := call.Phase(mcp.PhaseStart)
	_, box, notice, err := a.shells.enter(ctx, call.Session, call.Grant)
	starting()
	if err != nil {
		return a.shells.blocked(ctx, call.Session.ID(), err)
	}
	program, err := toolkit.Identity()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	running := call.Phase(mcp.PhaseRun)
	defer running()
	h, err := startHelper(ctx, box, call)
	if err != nil {
		return a.shells.blocked(ctx, call.Session.ID(), err)
	}
	answer, err := toolkit.Converse(h.in, h.out, toolkit.Request{Tool: args.Analysis(), Args: text, TimeMS: h.time.Milliseconds(), Program: program}, toolkit.Asks{
		LeaveOut: newFileJudge(func(f policies.Facts) policies.Decision { return call.Judge(ctx, f) }, own).leaveOut, Progress: stagesOf(call),
	})
	ended := h.end(ctx, err == nil)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return a.unanswered(call, ended, err), nil
	}
	if err := json.Unmarshal(answer.Result, out); err != nil {
		return a.unanswered(call, ended, fmt.Errorf("%w: %w", errNotAnswer, err)), nil
	}
	return shownAnswer(h.job, answer, ended, notice, out), nil
}

const nothingMeasured = "Nothing was measured."

// errNotAnswer is the error of a helper whose answer does not have the form of a result.
var errNotAnswer = errors.New("the answer is not a result")

// unanswered returns the result of a call without an answer. It states the reason.
func (a *analyses) unanswered(call mcp.Call, ended sandbox.Result, err error) *mcp.Result {
	if fault, ok := errors.AsType[*toolkit.Fault](err); ok {
		return mcp.Failed("%s. %s", valid([]byte(fault.Text)), nothingMeasured)
	}
	a.shells.backends.Log.Warn("an analysis gave no answer", "call", call.ID, "status", ended.Status, "exit", ended.Code, "err", err)
	why, instead := fmt.Sprintf("it ended without an answer (exit status %d)", ended.Code), "call again"
	const notValid, replaced = "its answer is not valid", "call again, or ask the person you work for to restart belljar, whose program may have been replaced"
	if errors.Is(err, errNotAnswer) {
		why, instead = notValid, replaced
	}
	switch ended.Status {
	case sandbox.OOM:
		why = fmt.Sprintf("it was stopped: memory is limited to %d MiB", call.Grant.Limits().Memory>>20)
		instead = "measure less in one call: name a directory as project_path"
	case sandbox.TimedOut:
		why, instead = "it was stopped: its time was up", "measure less in one call: name a directory as project_path"
	case sandbox.Killed:
		why = "it was stopped from outside"
		// the server stopped the helper because of its answer
		if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.ErrClosedPipe) {
			why, instead = notValid, replaced
		}
	case sandbox.Running, sandbox.Exited:
	}
	return mcp.Failed("The analysis failed in the sandbox: %s. %s Instead: %s.", why, nothingMeasured, instead)
}

// shownAnswer returns the result of a call with an answer.
func shownAnswer(job *sandbox.Job, answer *toolkit.Answer, ended sandbox.Result, notice string, out any) *mcp.Result {
	o := job.Output()
	var t text
	t.note(notice)
	var content []mcp.Content
	if answer.Document { // a document is for a program, so no other text is added to it
		content = append(content, mcp.Content{Text: valid([]byte(answer.Text))})
	} else {
		t.body(valid([]byte(answer.Text)))
	}
	pairs := []string{"duration_ms", fmt.Sprint(ended.Wall.Milliseconds())}
	if answer.Whole {
		pairs = append(pairs, "output_bytes", fmt.Sprint(o.Size()), "output", uri(o))
	}
	code := ended.Code
	return &mcp.Result{
		Content: append(content, mcp.Content{Text: t.status(pairs...)}),
		Structured: analysed{
			value: out, text: answer.Text, from: o,
			usage: startsOf(job).add(mcp.Usage{Exit: &code, Output: o.Size(), CPU: ended.Usage.CPU, PeakMemory: ended.Usage.PeakMemory}),
		},
		IsError: answer.Failed,
	}
}

// stagesOf returns a function that reports the helper's progress to the client. The
// reported numbers must grow.
func stagesOf(call mcp.Call) func(done, total int, stage string) {
	n := 0.0
	return func(done, total int, stage string) {
		n++
		if total > 0 {
			stage = fmt.Sprintf("%s: %d of %d", stage, done, total)
		}
		call.Progress(n, 0, valid([]byte(stage)))
	}
}

// helper is a run of `belljar toolkit-run` in a box.
type helper struct {
	job      *sandbox.Job
	in       *io.PipeWriter // end of the pipe to the helper's input
	out      *io.PipeReader // end of the pipe from the helper's output
	time     time.Duration  // how long the helper may take
	theirIn  *io.PipeReader
	theirOut *io.PipeWriter
	ended    chan struct{}
	forget   func() bool
}

// startHelper starts a helper in the box.
func startHelper(ctx context.Context, box *sandbox.Box, call mcp.Call) (*helper, error) {
	h := &helper{time: min(analysisMost, call.Grant.Limits().Wall), ended: make(chan struct{})}
	limit := h.time
	if call.Patience > 0 {
		h.time = min(h.time, max(call.Patience-replyTime, call.Patience/2))
	}
	h.theirIn, h.in = io.Pipe()
	h.out, h.theirOut = io.Pipe()
	var err error
	h.job, err = box.Start(ctx, sandbox.Cmd{
		Grant: call.Grant, Argv: []string{toolkit.Program, toolkit.HelperCommand}, Timeout: limit, In: h.theirIn, Err: h.theirOut,
	})
	if err != nil {
		return nil, err
	}
	h.forget = context.AfterFunc(ctx, func() { h.job.Kill(0) })
	go func() {
		defer close(h.ended)
		<-h.job.Done()
		h.theirOut.Close()
		h.theirIn.Close()
	}()
	return h, nil
}

// end stops the helper, and returns how it ended. A helper that has answered gets leaveTime
// to end by itself.
func (h *helper) end(ctx context.Context, answered bool) sandbox.Result {
	h.in.Close()
	h.out.Close()
	if answered {
		patience := time.NewTimer(leaveTime)
		defer patience.Stop()
		select {
		case <-h.ended:
		case <-ctx.Done():
		case <-patience.C:
		}
	}
	result := h.job.Kill(0)
	<-h.ended
	h.forget()
	return result
}

// fileJudge decides which files an analysis leaves out. It compares the decision about this
// call, with the file as its only path, with the decision about the call's directory. It
// also compares the decisions about this tool and about `cat` for the file with those for a
// file that no rule names. A file with a stricter decision is left out.
type fileJudge struct {
	same func(path string) policies.Decision // this call, with the file as its only path
	call func(path string) policies.Decision // this tool, with the file as project_path
	cat  func(path string) policies.Decision
	// The decision about the directory, and the decisions about a file that no rule names.
	project, usualCall, usualCat policies.Decision
	named                        []string // files that the call names, which the call's decision covers
}

// unknownFile is the name of a file that no rule names.
const unknownFile = toolkit.Workspace + "/belljar-a-file-that-no-rule-names"

// newFileJudge returns the fileJudge for a call with the facts own. judge decides about
// other calls.
func newFileJudge(judge func(policies.Facts) policies.Decision, own policies.Facts) *fileJudge {
	j := &fileJudge{
		same: func(path string) policies.Decision {
			return judge(policies.Facts{Tool: own.Tool, Paths: []string{path}, Args: own.Args})
		},
		call: func(path string) policies.Decision {
			return judge(policies.Facts{Tool: own.Tool, Paths: []string{path}, Args: map[string]any{"project_path": path}})
		},
		cat: func(path string) policies.Decision {
			f := commandFacts("cat "+quoteWord(path), "", nil, "")
			f.Tool, f.Args = "Bash", map[string]any{"command": f.Command}
			return judge(f)
		},
	}
	j.project, j.usualCall, j.usualCat = j.same(own.Paths[0]), j.call(unknownFile), j.cat(unknownFile)
	for _, file := range own.Paths[1:] {
		j.named = append(j.named, path.Clean(file))
	}
	return j
}

func (j *fileJudge) leaveOut(file string) bool {
	// A rule may name the file relative to the workspace, the directory where commands
	// begin.
	relative := strings.TrimPrefix(file, toolkit.Workspace+"/")
	if slices.Contains(j.named, file) {
		// A person may have approved the call with this file. So a rule that asks before
		// cat does not count, but a rule that denies cat does.
		return denied(j.cat(file), j.usualCat) || denied(j.cat(relative), j.usualCat)
	}
	return stricter(j.same(file), j.project) || stricter(j.call(file), j.usualCall) ||
		stricter(j.cat(file), j.usualCat) || stricter(j.cat(relative), j.usualCat)
}

// denied reports whether a decision is a denial that is stricter than the usual decision.
func denied(d, usual policies.Decision) bool {
	return d.Verdict == policies.Deny && stricter(d, usual)
}

// stricter reports whether a decision allows less than the usual decision, or refuses
// because of another rule.
func stricter(d, usual policies.Decision) bool {
	return d.Verdict != policies.Allow && (d.Verdict < usual.Verdict || d.Rule != usual.Rule)
}
