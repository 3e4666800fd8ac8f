package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// fixtureTask is a tool of the suite whose answer is always deferred.
type fixtureTask struct {
	required bool // a client without the extension cannot call it
	// early reports whether the tool has something to ask before it is deferred.
	early func(req *sdk.CallToolRequest) bool
	run   func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error)
}

const anyObject = `{"type":"object"}`

func sdkText(format string, args ...any) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func (s *Server) taskFixtures() {
	s.deferrals.fixtures = make(map[string]*fixtureTask)
	add := func(name, description, schema string, f fixtureTask) {
		s.deferrals.fixtures[name] = &f
		s.adapter.sdk.AddTool(&sdk.Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema)},
			func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return f.run(ctx, req)
			})
	}
	add("slow_compute", "takes so many seconds", `{"type":"object","properties":{"seconds":{"type":"number"},"label":{"type":"string"}}}`, fixtureTask{
		run: func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var in struct {
				Seconds float64 `json:"seconds"`
				Label   string  `json:"label"`
			}
			if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
				return nil, wire.Errorf(wire.InvalidParams, "%v", err)
			}
			if err := pause(ctx, time.Duration(in.Seconds*float64(time.Second))); err != nil {
				return nil, err
			}
			return sdkText("computed %s", in.Label), nil
		},
	})
	add("failing_job", "fails after a second", anyObject, fixtureTask{
		required: true,
		run: func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if err := pause(ctx, time.Second); err != nil {
				return nil, err
			}
			res := sdkText("the job failed")
			res.IsError = true
			return res, nil
		},
	})
	add("protocol_error_job", "panics", anyObject, fixtureTask{
		run: func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { panic("as the suite wants") },
	})
	add("confirm_delete", "asks before it does nothing", `{"type":"object","properties":{"filename":{"type":"string"}}}`, fixtureTask{
		run: func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			said, err := askLater(ctx, form1("Delete it?", "confirm", "boolean"))
			if err != nil {
				return nil, err
			}
			return sdkText("confirmed: %v", said["confirm"]), nil
		},
	})
	add("multi_input", "asks two things at once", anyObject, fixtureTask{run: askTwo})
	add("test_tool_with_task", "asks, and then takes its time", anyObject, fixtureTask{
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
}

// askLater asks the client of a deferred call.
func askLater(ctx context.Context, form *sdk.ElicitParams) (map[string]any, error) {
	d, _ := ctx.Value(deferredKey{}).(*deferred)
	if d == nil {
		return nil, errors.New("the client cannot be asked")
	}
	got, err := d.ask(ctx, form)
	if err != nil {
		return nil, err
	}
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
