package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"belljar.dev/mcp"
	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// prompts offers the prompts of servers as prompts of the place. To the policy, the use of
// a prompt is a call of the tool mcp_PREFIX_prompts.
func (g *calls) prompts() mcp.PromptSource {
	return mcp.PromptSource{
		List: func(ctx context.Context, s *mcp.Session) ([]mcp.Prompt, error) {
			g.gather(ctx, s)
			return g.offers.prompts(s.Tenant()), nil
		},
		Facts: func(s *mcp.Session, name string, _ map[string]string) policies.Facts {
			tool, ok := g.offers.prompt(s.Tenant(), name)
			if !ok {
				return policies.Facts{} // the prompt is gone; getPrompt then reports that it does not find it
			}
			return g.offers.use(s.Tenant(), tool.Server, usePrompts)
		},
		GetGranted: g.getPrompt, CompleteGranted: g.completePrompt,
	}
}

// getPrompt fills in a prompt.
func (g *calls) getPrompt(ctx context.Context, call mcp.Call, name string, args map[string]string) (all []mcp.Message, err error) {
	tool, ok := g.offers.prompt(call.Session.Tenant(), name)
	if !ok {
		return nil, mcp.ErrNotFound
	}
	params, err := json.Marshal(map[string]any{"name": tool.Native, "arguments": args})
	if err != nil {
		return nil, err
	}
	err = g.pool.Do(ctx, call.Grant, callerOf(call.Session), tool.Server, func(ctx context.Context, c *conn) error {
		if f, err := c.now(ctx); err != nil {
			return err
		} else if !f.hasPrompt(tool.Native) {
			return mcp.ErrNotFound
		}
		raw, err := c.ask(ctx, &running{call: call}, "prompts/get", params, nil)
		if err != nil {
			return err
		}
		all, err = messages(raw)
		return err
	})
	if bad, ok := errors.AsType[*mcp.RemoteError](err); ok {
		return nil, fmt.Errorf("the server %s answers: %s", tool.Server, bad.Message)
	}
	return all, err
}

// messages reads the result of prompts/get.
func messages(raw json.RawMessage) (all []mcp.Message, err error) {
	var r struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("the server answered with something that is not a prompt: %w", err)
	}
	for _, m := range r.Messages {
		if !wire.IsObject(m.Content) || m.Role != "user" && m.Role != "assistant" {
			return nil, fmt.Errorf("the server answered with an invalid message of the role %.40q", m.Role)
		}
		all = append(all, mcp.Message{Role: m.Role, Content: mcp.Content{Raw: m.Content, Text: wire.Text(wire.Member(m.Content, "text"))}})
	}
	return all, nil
}
