package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// taskResult is the wire form of a deferred call: resultType is "task" in the answer
// to the call itself, and "complete" in the answer to tasks/get.
type taskResult struct {
	sdk.ResultBase
	ResultType     string              `json:"resultType,omitempty"`
	TaskID         string              `json:"taskId"`
	Status         string              `json:"status"`
	StatusMessage  string              `json:"statusMessage,omitempty"`
	CreatedAt      string              `json:"createdAt"`
	LastUpdatedAt  string              `json:"lastUpdatedAt"`
	TTLMs          *int64              `json:"ttlMs"`
	PollIntervalMs int64               `json:"pollIntervalMs"`
	InputRequests  sdk.InputRequestMap `json:"inputRequests,omitempty"`
	Result         *sdk.CallToolResult `json:"result,omitempty"`
	Error          *jsonrpc.Error      `json:"error,omitempty"`
}

// doneResult is an answer without content.
type doneResult struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
}

func done() *doneResult { return &doneResult{ResultType: resultComplete} }

const (
	resultComplete = "complete"
	resultTask     = "task"
)

// handle returns the task without its answer; mu is held.
func (d *deferred) handle(resultType string) *taskResult {
	return &taskResult{
		ResultType: resultType, TaskID: d.id, Status: d.state,
		CreatedAt: stamp(d.created), LastUpdatedAt: stamp(d.updated), PollIntervalMs: pollEvery.Milliseconds(),
	}
}

// opened is the answer to the call: its handle.
func (d *deferred) opened() *taskResult {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.handle(resultTask)
}

// detail returns the answer to tasks/get about a call that this process runs.
func (d *deferred) detail() *taskResult {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.handle(resultComplete)
	out.answered(taskAnswer{d.result, d.failure})
	if d.state == taskInput {
		out.InputRequests = make(sdk.InputRequestMap, len(d.asked))
		for key, q := range d.asked {
			out.InputRequests[key] = q.request
		}
	}
	return out
}

// kept returns the answer to tasks/get about a task on record. The result of a call
// has the form that the call asked for; structured chooses the form of other results.
func (ds *deferrals) kept(t Task, structured bool) (*taskResult, error) {
	out := &taskResult{
		ResultType: resultComplete, TaskID: t.ID, Status: t.State, StatusMessage: t.Message,
		CreatedAt: stamp(t.Created), LastUpdatedAt: stamp(t.Updated), PollIntervalMs: pollEvery.Milliseconds(),
	}
	if !t.Expires.IsZero() {
		left := t.Expires.Sub(t.Created).Milliseconds()
		out.TTLMs = &left
	}
	var a taskAnswer
	switch {
	case t.Answer != nil:
		if err := json.Unmarshal(t.Answer, &a); err != nil {
			return nil, wire.Errorf(wire.InternalError, "task %.80q: what is kept of it: %v", t.ID, err)
		}
	case t.State == TaskCompleted && t.Result != nil:
		res, err := t.Result.shown(structured)
		if err != nil {
			return nil, err
		}
		if a.Result, err = sdkResult(res, ds.cfg.Limits.Response); err != nil {
			return nil, err
		}
	case t.State == TaskFailed:
		a.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: t.Message}
	}
	out.answered(a)
	return out, nil
}

// answered adds the answer of the call.
func (t *taskResult) answered(a taskAnswer) {
	t.Result, t.Error = a.Result, a.Error
	if a.Error != nil {
		t.StatusMessage = a.Error.Message
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// taskParams are those of tasks/get, tasks/update and tasks/cancel.
type taskParams struct {
	sdk.ParamsBase
	TaskID         string                     `json:"taskId"`
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitempty"`
}

// addTasks registers the methods of the tasks extension.
func (a *adapter) addTasks() {
	addTaskMethod(a, "tasks/get", func(_ context.Context, _ *Session, _ *deferred, t *taskResult, _ *taskParams) (*taskResult, error) {
		return t, nil
	})
	addTaskMethod(a, "tasks/update", func(_ context.Context, _ *Session, d *deferred, t *taskResult, p *taskParams) (*doneResult, error) {
		if d == nil {
			return done(), nil // no call waits for an answer
		}
		defer a.server.deferrals.changed(t.TaskID)
		return done(), d.reply(p.InputResponses)
	})
	addTaskMethod(a, "tasks/cancel", func(ctx context.Context, session *Session, d *deferred, t *taskResult, _ *taskParams) (*doneResult, error) {
		if d != nil {
			d.cancel(errCancelled) // does nothing where the call has ended
			return done(), nil
		}
		if err := a.server.deferrals.keeper.Cancel(ctx, session, t.TaskID); err != nil {
			return nil, wire.Errorf(wire.InternalError, "cancel task %.80q: %v", t.TaskID, err)
		}
		return done(), nil
	})
}

// addTaskMethod registers a method about a task. do gets the task as d where it
// runs here; where d is nil, the task is only on record.
func addTaskMethod[R sdk.Result](a *adapter, method string, do func(context.Context, *Session, *deferred, *taskResult, *taskParams) (R, error)) {
	err := sdk.AddReceivingCustomMethod(a.sdk, method,
		func(ctx context.Context, _ *sdk.ServerSession, p *taskParams) (none R, _ error) {
			if err := declares(p.Meta); err != nil {
				return none, err
			}
			session, err := a.sessionOf(ctx)
			if err != nil {
				return none, err
			}
			d, t, err := a.server.deferrals.find(ctx, session, p.TaskID, p.Meta)
			if err != nil {
				return none, err
			}
			return do(ctx, session, d, t, p)
		})
	if err != nil {
		panic("mcp: " + err.Error()) // the sdk has come to know the method
	}
}

// Where a request of the modern era says what its client can do, and what
// revision it speaks.
const (
	capabilitiesKey = "io.modelcontextprotocol/clientCapabilities"
	revisionKey     = "io.modelcontextprotocol/protocolVersion"
)

// declares returns nil if a request declares the tasks extension, and otherwise the
// error about that. The legacy era does not have the extension.
func declares(meta sdk.Meta) error {
	if revision, _ := meta[revisionKey].(string); revision < wire.ModernRevision {
		return wire.Errorf(wire.MethodNotFound, "the tasks extension needs revision %s", wire.ModernRevision)
	}
	capabilities, _ := meta[capabilitiesKey].(map[string]any)
	extensions, _ := capabilities["extensions"].(map[string]any)
	if _, ok := extensions[tasksExtension]; ok {
		return nil
	}
	return needsTasks()
}

// needsTasks is the error for a client that does not declare the extension.
func needsTasks() error {
	data := `{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`
	return &jsonrpc.Error{
		Code: sdk.CodeMissingRequiredClientCapabilities, Data: json.RawMessage(data),
		Message: "missing required client capability: " + tasksExtension,
	}
}

// callDeferring answers a tools/call of a client that declares the extension. It
// returns nil without an error if the call is not to be deferred.
func (a *adapter) callDeferring(ctx context.Context, req *sdk.CallToolRequest, next sdk.MethodHandler) (sdk.Result, error) {
	if eraOf(req) != wire.Modern || a.server.deferrals.keeper == nil {
		return nil, nil //nolint:nilnil // as above
	}
	var suite Deferral
	if a.server.cfg.Suite != nil {
		suite = a.server.cfg.Suite.Defers(req.Params.Name, req)
	}
	if err := declares(req.Params.Meta); err != nil {
		if suite.Required {
			return nil, err
		}
		return nil, nil //nolint:nilnil // as above
	}
	wait := a.server.cfg.Patience
	switch {
	case suite.Always:
		if suite.Asks {
			return nil, nil //nolint:nilnil // as above
		}
		wait = 0
	case len(req.Params.InputResponses) > 0 || req.Params.RequestState != "":
		return nil, nil //nolint:nilnil // it goes on with questions that were asked before
	default:
		if _, known := a.server.tools.find(req.Params.Name); !known {
			return nil, nil //nolint:nilnil // as above
		}
	}
	session, err := a.sessionOf(ctx)
	if err != nil {
		return nil, err
	}
	return a.server.deferrals.run(ctx, session, req.Params.Name, wait, func(ctx context.Context) (*sdk.CallToolResult, error) { return callUntilDone(ctx, req, next) })
}

// callUntilDone calls a tool, and calls it again with the client's answers as long as
// the tool asks. The client is asked through its handle once it has one.
func callUntilDone(ctx context.Context, req *sdk.CallToolRequest, next sdk.MethodHandler) (*sdk.CallToolResult, error) {
	for {
		any, err := next(ctx, "tools/call", req)
		if err != nil {
			return nil, err
		}
		res, ok := any.(*sdk.CallToolResult)
		if !ok {
			return nil, wire.Errorf(wire.InternalError, "tools/call gave a %T", any)
		}
		d, _ := ctx.Value(deferredKey{}).(*deferred)
		if len(res.InputRequests) == 0 || !d.told() {
			return res, nil
		}
		said, err := d.askAll(ctx, res.InputRequests)
		if err != nil {
			return nil, err
		}
		params := *req.Params
		params.InputResponses, params.RequestState = said, res.RequestState
		req = &sdk.CallToolRequest{Session: req.Session, Params: &params, Extra: req.Extra}
	}
}
