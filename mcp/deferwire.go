package mcp

import (
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
	taskAnswer
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

// handle returns the task without its answer; the caller holds mu.
func (d *deferred) handle(resultType string) *taskResult {
	return &taskResult{
		ResultType: resultType, TaskID: d.id, Status: d.state,
		CreatedAt: stamp(d.created), LastUpdatedAt: stamp(d.updated), PollIntervalMs: pollEvery.Milliseconds(),
	}
}

// opened returns the answer to the call itself: the handle.
func (d *deferred) opened() *taskResult {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.handle(resultTask)
}

// detail returns the answer to tasks/get for a call that this process runs.
func (d *deferred) detail() *taskResult {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.handle(resultComplete)
	out.answered(answerOf(d.result, d.failure))
	if d.state == taskInput {
		out.InputRequests = make(sdk.InputRequestMap, len(d.asked))
		for key, q := range d.asked {
			out.InputRequests[key] = q.request
		}
	}
	return out
}

// kept returns the answer to tasks/get for a task that Tasks has. The result of a call has
// the form that the call asked for; structured chooses the form of other results.
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
			return nil, wire.Errorf(wire.InternalError, "task %.80q: its kept answer is not valid: %v", t.ID, err)
		}
	case t.State == TaskCompleted && t.Result != nil:
		res, err := t.Result.shown(structured, false)
		if err != nil {
			return nil, err
		}
		sent, err := sdkResult(res, ds.cfg.Limits.Response)
		if err != nil {
			return nil, err
		}
		a = answerOf(sent, nil)
	case t.State == TaskFailed:
		a.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: t.Message}
	}
	out.answered(a)
	return out, nil
}

// taskAnswer is the answer of a task in the form that Tasks keeps. The result is JSON,
// because the result of an upstream may contain members that the sdk does not know.
type taskAnswer struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *jsonrpc.Error  `json:"error,omitempty"`
}

// answerOf returns the answer of a call.
func answerOf(res *sdk.CallToolResult, failure *jsonrpc.Error) taskAnswer {
	if res == nil || failure != nil {
		return taskAnswer{Error: failure}
	}
	raw, err := json.Marshal(res)
	if err != nil {
		return taskAnswer{Error: forSDK(wire.Errorf(wire.InternalError, "marshal the result: %v", err), wire.Modern)}
	}
	return taskAnswer{Result: raw}
}

// answered adds the answer of the call to the result.
func (t *taskResult) answered(a taskAnswer) {
	t.taskAnswer = a
	if a.Error != nil {
		t.StatusMessage = a.Error.Message
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// declares returns nil if a request declares the tasks extension, and otherwise the
// error about that. The legacy era does not have the extension.
func declares(meta sdk.Meta) error {
	if revision, _ := meta[wire.RevisionKey].(string); revision < wire.ModernRevision {
		return wire.Errorf(wire.MethodNotFound, "the tasks extension needs revision %s", wire.ModernRevision)
	}
	capabilities, _ := meta[wire.CapabilitiesKey].(map[string]any)
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
