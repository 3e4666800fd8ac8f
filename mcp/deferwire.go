package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// taskResult is a deferred call as the tasks extension writes it: as the answer
// to the call itself with resultType "task", and to tasks/get with "complete".
type taskResult struct {
	sdk.ResultBase
	ResultType     string              `json:"resultType"`
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

// doneResult is an answer that says no more than that it was done.
type doneResult struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
}

func done() *doneResult { return &doneResult{ResultType: resultComplete} }

const (
	resultComplete = "complete"
	resultTask     = "task"
)

// handle is the call without what came of it.
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

// detail is the call as tasks/get has it.
func (d *deferred) detail() *taskResult {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.handle(resultComplete)
	out.Result, out.Error = d.result, d.failure
	if d.failure != nil {
		out.StatusMessage = d.failure.Message
	}
	if d.state == stateInput {
		out.InputRequests = make(sdk.InputRequestMap, len(d.asked))
		for key, q := range d.asked {
			out.InputRequests[key] = q.request
		}
	}
	if out.over() {
		left := d.updated.Sub(d.created).Milliseconds() + deferredKept.Milliseconds()
		out.TTLMs = &left
	}
	return out
}

func (t *taskResult) over() bool {
	return t.Status != stateWorking && t.Status != stateInput
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// taskParams are those of tasks/get, tasks/update and tasks/cancel.
type taskParams struct {
	sdk.ParamsBase
	TaskID         string                     `json:"taskId"`
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitempty"`
}

// addTasks registers the methods of the tasks extension.
func (s *Server) addTasks() {
	addTaskMethod(s, "tasks/get", func(d *deferred, _ *taskParams) (*taskResult, error) { return d.detail(), nil })
	addTaskMethod(s, "tasks/update", func(d *deferred, p *taskParams) (*doneResult, error) {
		return done(), d.reply(p.InputResponses)
	})
	addTaskMethod(s, "tasks/cancel", func(d *deferred, _ *taskParams) (*doneResult, error) {
		d.cancel(errCancelled) // which one that has ended does not hear
		return done(), nil
	})
}

func addTaskMethod[R sdk.Result](s *Server, method string, do func(*deferred, *taskParams) (R, error)) {
	err := sdk.AddReceivingCustomMethod(s.sdk, method,
		func(ctx context.Context, ss *sdk.ServerSession, p *taskParams) (none R, _ error) {
			if err := declares(p.Meta); err != nil {
				return none, err
			}
			session, err := s.sessionOf(ctx, ss)
			if err != nil {
				return none, err
			}
			d, err := s.deferredOf(session, p.TaskID)
			if err != nil {
				return none, err
			}
			return do(d, p)
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

// declares is nil if a request declares the tasks extension, and else the error
// that says so; in the legacy era there is no such thing.
func declares(meta sdk.Meta) error {
	if revision, _ := meta[revisionKey].(string); revision < modernRevision {
		return fault(methodNotFound, "the tasks extension needs revision %s", modernRevision)
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

// callDeferring answers a tools/call of a client that declares the extension;
// nil without an error is a call that is not to be deferred.
func (s *Server) callDeferring(ctx context.Context, ss *sdk.ServerSession, req *sdk.CallToolRequest, next sdk.MethodHandler) (sdk.Result, error) {
	if eraOf(req) != modern {
		return nil, nil //nolint:nilnil // as above
	}
	fixture := s.tasks[req.Params.Name]
	if err := declares(req.Params.Meta); err != nil {
		if fixture != nil && fixture.required {
			return nil, err
		}
		return nil, nil //nolint:nilnil // as above
	}
	wait := s.cfg.Patience
	switch {
	case fixture != nil:
		if fixture.early != nil && fixture.early(req) {
			return nil, nil //nolint:nilnil // as above
		}
		wait = 0
	case len(req.Params.InputResponses) > 0 || req.Params.RequestState != "":
		return nil, nil //nolint:nilnil // it goes on with questions that were asked before
	default:
		if _, known := s.tool(req.Params.Name); !known {
			return nil, nil //nolint:nilnil // as above
		}
	}
	session, err := s.sessionOf(ctx, ss)
	if err != nil {
		return nil, err
	}
	return s.deferring(ctx, session, wait, func(ctx context.Context) (*sdk.CallToolResult, error) { return callUntilDone(ctx, req, next) })
}

// callUntilDone calls a tool, and again with what the client says for as long as
// the tool asks and the client has the handle: then it is asked by that.
func callUntilDone(ctx context.Context, req *sdk.CallToolRequest, next sdk.MethodHandler) (*sdk.CallToolResult, error) {
	for {
		any, err := next(ctx, "tools/call", req)
		if err != nil {
			return nil, err
		}
		res, ok := any.(*sdk.CallToolResult)
		if !ok {
			return nil, fault(internalError, "tools/call gave a %T", any)
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
