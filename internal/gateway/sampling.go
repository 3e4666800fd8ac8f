package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"belljar.dev/mcp"
	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// The questions other than those to a person that a server may ask, if the policy allows
// it.
const (
	sampleMethod = "sampling/createMessage"
	rootsMethod  = "roots/list"
)

// Bounds of a question to a client's model. The answers of the model cost the client money.
const (
	sampleTokens   = 4096      // most tokens of the answer
	sampleMessages = 64        // most messages of the question
	sampleBytes    = 256 << 10 // most bytes of the params
)

// offersAt reports which parts of a client servers may ask: its person, the person's
// browser, its model.
type offersAt struct{ person, browser, model bool }

// offersOf returns what a server may ask of a client, in the form of client capabilities.
func offersOf(s *server, at offersAt) json.RawMessage {
	var all []string
	switch browser := at.browser && s.Trusted; {
	case at.person && browser:
		all = append(all, `"elicitation":{"form":{},"url":{}}`)
	case at.person:
		all = append(all, `"elicitation":{}`)
	case browser:
		all = append(all, `"elicitation":{"url":{}}`)
	}
	if at.model && s.Settings.Sampling {
		all = append(all, `"sampling":{}`)
	}
	if s.Settings.Roots {
		all = append(all, `"roots":{}`)
	}
	return json.RawMessage("{" + strings.Join(all, ",") + "}")
}

// sample puts a question to the model of the client of a call. Only the params that belljar
// knows are passed on: no tools, and no request for the context of other servers.
func (c *conn) sample(ctx context.Context, run *running, id string, params json.RawMessage) (json.RawMessage, error) {
	if !c.server.Settings.Sampling {
		return nil, wire.Errorf(wire.MethodNotFound, "the policy does not let this server ask a model")
	}
	asks, err := sampleOf(c.server.Name, params)
	if err != nil {
		return nil, wire.Errorf(wire.InvalidParams, "%v", err)
	}
	if !run.now().Samples() {
		return nil, wire.Errorf(wire.InvalidRequest, "the client of this call has no model that can be asked")
	}
	a, err := c.question(ctx, run, id, mcp.Form{Sample: asks})
	switch {
	case err != nil:
		return nil, err
	case a.Action != mcp.FormAccepted || a.Sample == nil:
		return nil, wire.Errorf(wire.InternalError, "the client did not answer, or its user has declined")
	}
	return a.Sample, nil
}

// sampling is a question of a server to a model (MCP 2025-11-25, "Sampling").
type sampling struct {
	Messages []json.RawMessage `json:"messages"`
	System   string            `json:"systemPrompt,omitempty"`
	Tokens   int64             `json:"maxTokens"`
	Heat     json.RawMessage   `json:"temperature,omitempty"`
	Stop     json.RawMessage   `json:"stopSequences,omitempty"`
	Model    json.RawMessage   `json:"modelPreferences,omitempty"`
}

// sampleOf returns the params of a question to a model, in the form that the client gets.
func sampleOf(server string, params json.RawMessage) (json.RawMessage, error) {
	if len(params) > sampleBytes {
		return nil, fmt.Errorf("the params have %d bytes, and at most %d are passed on", len(params), sampleBytes)
	}
	if wire.Member(params, "tools") != nil {
		return nil, errors.New("tools of a server are not given to a model")
	}
	var q sampling
	if err := json.Unmarshal(params, &q); err != nil {
		return nil, fmt.Errorf("the params cannot be read: %w", err)
	}
	if len(q.Messages) > sampleMessages {
		return nil, fmt.Errorf("it has %d messages, and at most %d are passed on", len(q.Messages), sampleMessages)
	}
	q.Tokens = min(q.Tokens, sampleTokens)
	// Clients show a person the messages and the system prompt. Few clients show _meta.
	q.System = strings.TrimSpace(fmt.Sprintf("The MCP server %s asks this through belljar, and receives the answer. The question is not from the user.\n\n%s", upstream.Line(server), q.System))
	asks, err := json.Marshal(struct {
		sampling
		Meta map[string]string `json:"_meta"`
	}{q, map[string]string{mcp.UpstreamKey: server}})
	if err != nil {
		return nil, err
	}
	return asks, mcp.CheckSample(asks)
}

// rootsOfBox answers roots/list with the directories of the server's box that its profile
// names. The client's own roots are on another machine, or not in the box.
func (c *conn) rootsOfBox() (json.RawMessage, error) {
	if !c.server.Settings.Roots {
		return nil, wire.Errorf(wire.MethodNotFound, "the policy does not let this server know of roots")
	}
	type root struct {
		URI  string `json:"uri"`
		Name string `json:"name"`
	}
	roots := []root{}
	for _, dir := range c.roots {
		roots = append(roots, root{(&url.URL{Scheme: "file", Path: dir}).String(), dir})
	}
	return json.Marshal(map[string]any{"roots": roots})
}

// rootsOf returns the paths in the box of the directories that a profile names.
func rootsOf(g policies.Grant) (all []string) {
	if g.Workspace() != policies.AccessNone {
		all = append(all, sandbox.WorkspaceDir)
	}
	for _, m := range g.Mounts() {
		if m.Target != policies.UpstreamCache {
			all = append(all, m.Target)
		}
	}
	return all
}
