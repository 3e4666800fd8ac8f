package mcp

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// callDeferring answers a tools/call of a client that declares the tasks extension. It
// returns nil without an error if the call is not to be deferred.
func (a *adapter) callDeferring(ctx context.Context, req *sdk.CallToolRequest, next sdk.MethodHandler) (sdk.Result, error) {
	if eraOf(req) != wire.Modern || a.server.deferrals.keeper == nil {
		return nil, nil //nolint:nilnil // nil means that the call is not deferred
	}
	var suite Deferral
	if a.server.cfg.Suite != nil {
		suite = a.server.cfg.Suite.Defers(req.Params.Name, req)
	}
	if err := declares(req.Params.Meta); err != nil {
		if suite.Required {
			return nil, err
		}
		return nil, nil //nolint:nilnil // nil means that the call is not deferred
	}
	wait := a.server.cfg.Patience
	switch {
	case suite.Always:
		if suite.Asks {
			return nil, nil //nolint:nilnil // nil means that the call is not deferred
		}
		wait = 0
	case len(req.Params.InputResponses) > 0 || req.Params.RequestState != "":
		return nil, nil //nolint:nilnil // the call continues after earlier questions, and is not deferred
	default:
		if _, known := a.server.tools.find(a.tenantOf(ctx), req.Params.Name); !known {
			return nil, nil //nolint:nilnil // nil means that the call is not deferred
		}
	}
	session, err := a.sessionOf(ctx)
	if err != nil {
		return nil, err
	}
	return a.server.deferrals.run(ctx, session, req.Params.Name, wait, func(ctx context.Context) (*sdk.CallToolResult, error) { return callUntilDone(ctx, req, next) })
}

// callUntilDone calls a tool, and calls it again with the client's answers as long as the
// tool asks. Once the client has a handle for the answer, it is asked through that handle.
func callUntilDone(ctx context.Context, req *sdk.CallToolRequest, next sdk.MethodHandler) (*sdk.CallToolResult, error) {
	for {
		any, err := next(ctx, "tools/call", req)
		if err != nil {
			return nil, err
		}
		res, ok := any.(*sdk.CallToolResult)
		if !ok {
			return nil, wire.Errorf(wire.InternalError, "tools/call returned a %T", any)
		}
		d := deferredIn(ctx)
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

// taskParams are the parameters of tasks/get, tasks/update and tasks/cancel.
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
			d.cancel(errCancelled) // does nothing if the call has ended
			return done(), nil
		}
		if err := a.server.deferrals.keeper.Cancel(ctx, session, t.TaskID); err != nil {
			return nil, wire.Errorf(wire.InternalError, "cancel task %.80q: %v", t.TaskID, err)
		}
		return done(), nil
	})
}

// addTaskMethod registers a method about a task. do gets the running call of the task as d;
// d is nil if the task does not run in this process and only its record exists.
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
		panic("mcp: " + err.Error()) // the sdk has a method of this name by now
	}
}
