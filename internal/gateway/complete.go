package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"belljar.dev/mcp"
	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/wire"
)

// completeTime is how long a server may take to complete a value, because a person is
// typing.
const completeTime = 5 * time.Second

// completePrompt completes an argument of a server's prompt.
func (g *calls) completePrompt(ctx context.Context, call mcp.Call, want mcp.Completing) (mcp.Completion, error) {
	tool, ok := g.offers.prompt(call.Session.Tenant(), want.Of)
	if !ok {
		return mcp.Completion{}, mcp.ErrNotFound
	}
	offers := func(f *face) bool { return f.hasPrompt(tool.Native) }
	return g.complete(ctx, call, tool.Server, offers, map[string]string{"type": "ref/prompt", "name": tool.Native}, want)
}

// completeResource completes a variable of a server's template.
func (g *calls) completeResource(ctx context.Context, call mcp.Call, want mcp.Completing) (mcp.Completion, error) {
	server, native, ok := g.offers.resource(call.Session.Tenant(), want.Of)
	if !ok {
		return mcp.Completion{}, mcp.ErrNotFound
	}
	offers := func(f *face) bool { return f.hasTemplate(native) }
	return g.complete(ctx, call, server, offers, map[string]string{"type": "ref/resource", "uri": native}, want)
}

// complete makes a server complete a value of something that it offers. If the server does
// not support completions, there are no values.
func (g *calls) complete(ctx context.Context, call mcp.Call, server string, offers func(*face) bool, ref map[string]string, want mcp.Completing) (c mcp.Completion, err error) {
	of := map[string]any{"ref": ref, "argument": map[string]string{"name": want.Name, "value": want.Typed}}
	if len(want.Given) > 0 {
		of["context"] = map[string]any{"arguments": want.Given}
	}
	params, err := json.Marshal(of)
	if err != nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	err = g.pool.Do(ctx, call.Grant, callerOf(call.Session), server, func(ctx context.Context, conn *conn) error {
		switch f, err := conn.now(ctx); {
		case err != nil:
			return err
		case !offers(f):
			return mcp.ErrNotFound
		case wire.Member(f.info.Capabilities, "completions") == nil:
			return nil
		}
		raw, err := conn.ask(ctx, &running{call: call, quiet: true}, "completion/complete", params, nil)
		if err != nil {
			return err
		}
		c, err = completionOf(server, raw)
		return err
	})
	return c, err
}

// completionOf decodes the result of completion/complete.
func completionOf(server string, raw json.RawMessage) (c mcp.Completion, err error) {
	var r struct {
		Values []string `json:"values"`
		Total  int      `json:"total"`
		More   bool     `json:"hasMore"`
	}
	if err := json.Unmarshal(wire.Member(raw, "completion"), &r); err != nil {
		return c, fmt.Errorf("the server %s answered with something that is not a completion", upstream.Line(server))
	}
	return mcp.Completion{Values: r.Values, Total: max(r.Total, 0), More: r.More}, nil
}
