package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/pause"
	"belljar.dev/mcp"
	"belljar.dev/mcp/wire"
)

// task is a tool of the suite whose answer is always deferred.
type task struct {
	required bool // whether a client without the extension cannot call the tool
	// early reports whether the tool has to ask the client something before its answer is
	// deferred.
	early func(req *sdk.CallToolRequest) bool
	run   func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error)
}

const anyObject = `{"type":"object"}`

func sdkText(format string, args ...any) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// taskTools registers the tools whose answers are deferred, and returns them by name.
func taskTools(server *sdk.Server) map[string]task {
	all := make(map[string]task)
	add := func(name, description, schema string, t task) {
		all[name] = t
		server.AddTool(&sdk.Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema)}, t.run)
	}
	add("slow_compute", "runs for the given number of seconds", `{"type":"object","properties":{"seconds":{"type":"number"},"label":{"type":"string"}}}`, task{
		run: func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var in struct {
				Seconds float64 `json:"seconds"`
				Label   string  `json:"label"`
			}
			if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
				return nil, wire.Errorf(wire.InvalidParams, "%v", err)
			}
			if err := pause.For(ctx, time.Duration(in.Seconds*float64(time.Second))); err != nil {
				return nil, err
			}
			return sdkText("computed %s", in.Label), nil
		},
	})
	add("failing_job", "fails after a second", anyObject, task{
		required: true,
		run: func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if err := pause.For(ctx, time.Second); err != nil {
				return nil, err
			}
			res := sdkText("the job failed")
			res.IsError = true
			return res, nil
		},
	})
	add("protocol_error_job", "panics", anyObject, task{
		run: func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			panic("the suite wants a panic")
		},
	})
	add("confirm_delete", "asks for a confirmation, and deletes nothing", `{"type":"object","properties":{"filename":{"type":"string"}}}`, task{
		run: func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			said, err := askLater(ctx, form1("Delete it?", "confirm", "boolean"))
			if err != nil {
				return nil, err
			}
			return sdkText("confirmed: %v", said["confirm"]), nil
		},
	})
	add("multi_input", "asks two things at once", anyObject, task{run: askTwo})
	add("test_tool_with_task", "asks, and then runs for some time", anyObject, task{
		required: true,
		early: func(req *sdk.CallToolRequest) bool {
			return accepted(req.Params.InputResponses, "user_name") == nil
		},
		run: func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if said := accepted(req.Params.InputResponses, "user_name"); said != nil {
				return sdkText("Hello, %v!", said["name"]), nil
			}
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"user_name": form1("What is your name?", "name", "string")}}, nil
		},
	})
	return all
}

// askLater asks the client something during a deferred call.
func askLater(ctx context.Context, form *sdk.ElicitParams) (map[string]any, error) {
	answer, err := mcp.AskByTask(ctx, form)
	if err != nil {
		return nil, err
	}
	got, _ := answer.(sdk.InputResponse)
	return accepted(sdk.InputResponseMap{"it": got}, "it"), nil
}

func askTwo(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var both sync.WaitGroup
	var said [2]map[string]any
	var errs [2]error
	for i, question := range []string{"The first?", "The second?"} {
		both.Go(func() { said[i], errs[i] = askLater(ctx, form1(question, "name", "string")) })
	}
	both.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return sdkText("%v and %v", said[0]["name"], said[1]["name"]), nil
}
