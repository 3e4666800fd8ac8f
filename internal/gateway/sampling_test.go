package gateway

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/mcptest/upstreams"
)

// sampler returns a server that puts a question to a model during each call of echo.
func sampler(params string) map[string]upstreams.Server {
	return map[string]upstreams.Server{"s": {
		Tools: []upstreams.Tool{upstreams.Echo, {Name: upstreams.ReceivedTool}},
		Rules: []upstreams.Rule{{On: "tools/call", Has: `"echo"`, Do: []upstreams.Act{upstreams.Ask("sampling/createMessage", params), upstreams.Answer()}}},
	}}
}

const sampled = `{"messages":[{"role":"user","content":{"type":"text","text":"Say hi"}}],"maxTokens":100000,"systemPrompt":"Be brief","temperature":0.5,"includeContext":"allServers","metadata":{"odd":1}}`

// received reports whether the server has received a message that contains all these parts.
func (g *gated) received(t *testing.T, parts ...string) bool {
	t.Helper()
	text, failed := g.call("mcp_s_"+upstreams.ReceivedTool, `{}`)
	if failed {
		t.Fatal(text)
	}
	for line := range strings.Lines(text) {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			return true
		}
	}
	return false
}

// GW24: with sampling: true a server may ask the model of the client whose call runs. The
// question names the server, and the client gets only the parts of the question that
// belljar knows.
func TestServersAskModels(t *testing.T) {
	g := gate(t, "servers: {s: {sampling: true}}", "", sampler(sampled))
	g.names()
	asked := make(chan message, 1)
	g.mu.Lock()
	g.asks = func(m message) any {
		asked <- m
		return map[string]any{"role": "assistant", "model": "m-1", "stopReason": "endTurn", "content": map[string]string{"type": "text", "text": "Hi there"}}
	}
	g.mu.Unlock()
	g.wants("mcp_s_echo", `{"x":1}`, false, `{"x":1}`)
	m := <-asked
	for _, want := range []string{`"Say hi"`, `"maxTokens":4096`, `"systemPrompt":"The MCP server s asks this through belljar`, `The question is not from the user.\n\nBe brief"`, `"temperature":0.5`, `"belljar.dev/upstream":"s"`} {
		if m.Method != "sampling/createMessage" || !strings.Contains(string(m.Params), want) {
			t.Errorf("the client got %s %s, want %s in it", m.Method, m.Params, want)
		}
	}
	for _, not := range []string{"allServers", "odd"} {
		if strings.Contains(string(m.Params), not) {
			t.Errorf("the client got %s, with %s", m.Params, not)
		}
	}
	if !g.received(t, `"id":"ask-1"`, `"Hi there"`, `"m-1"`) {
		t.Error("the server has not got the answer of the model")
	}
}

// A completion is requested with each key that a person types, and nobody has decided about
// it. So during a completion, a server cannot ask a model or a person.
func TestNobodyIsAskedForACompletion(t *testing.T) {
	g := gate(t, "servers: {s: {sampling: true}}", "", map[string]upstreams.Server{"s": {
		Tools: []upstreams.Tool{{Name: upstreams.ReceivedTool}},
		Results: map[string]json.RawMessage{
			"initialize":          json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{},"completions":{}},"serverInfo":{"name":"s","version":"1"}}`),
			"prompts/list":        json.RawMessage(`{"prompts":[{"name":"p","arguments":[{"name":"x"}]}]}`),
			"completion/complete": json.RawMessage(`{"completion":{"values":["v"]}}`),
		},
		Rules: upstreams.On("completion/complete", upstreams.Ask("sampling/createMessage", sampled), upstreams.Answer()),
	}})
	g.mu.Lock()
	g.asks = func(m message) any {
		t.Errorf("the client got %s", m.Method)
		return map[string]any{"role": "assistant", "model": "m", "content": map[string]string{"type": "text", "text": "Hi there"}}
	}
	g.mu.Unlock()
	g.ask("prompts/list", "{}")
	if m := g.ask("completion/complete", `{"ref":{"type":"ref/prompt","name":"mcp_s_p"},"argument":{"name":"x","value":""}}`); !strings.Contains(string(m.Result), `"v"`) {
		t.Errorf("got %+v %s", m.Error, m.Result)
	}
	if !g.received(t, `"id":"ask-1"`, "nobody is asked for a completion") {
		t.Error("the server has not got the refusal")
	}
}

// GW24: a client of 2026-07-28 gets the question for its model as the result of its call,
// and the server continues with the answer. An answer to a form does not answer a question
// for a model.
func TestServersAskModelsInAResult(t *testing.T) {
	g := gate(t, "servers: {s: {sampling: true}}", "", sampler(sampled))
	g.names()
	call := func(more, capabilities string) (m message, r asks) {
		m = g.ask("tools/call", `{"name":"mcp_s_echo","arguments":{"x":1},`+more+`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":`+capabilities+`}}`)
		_ = json.Unmarshal(m.Result, &r)
		return m, r
	}
	for answer, want := range map[string]string{
		`{"role":"assistant","model":"m-2","content":{"type":"text","text":"Hi again"}}`: `"Hi again"`,
		`{"action":"accept","content":{}}`:                                               `did not answer`,
	} {
		m, r := call("", `{"sampling":{}}`)
		if len(r.Requests) != 1 || !strings.Contains(string(m.Result), `"method":"sampling/createMessage"`) || !strings.Contains(string(m.Result), `"Say hi"`) {
			t.Fatalf("got %s %+v", m.Result, m.Error)
		}
		for id := range r.Requests {
			m, _ = call(`"inputResponses":{"`+id+`":`+answer+`},"requestState":"`+r.State+`",`, `{"sampling":{}}`)
		}
		if !strings.Contains(string(m.Result), `{\"x\":1}`) || !g.received(t, want) {
			t.Errorf("with the answer %s: got %s %+v", answer, m.Result, m.Error)
		}
	}
	if m, _ := call("", `{"elicitation":{}}`); !strings.Contains(string(m.Result), `{\"x\":1}`) || !g.received(t, "has no model that can be asked") {
		t.Errorf("a client without a model: got %s %+v", m.Result, m.Error)
	}
}

// A question that a server may not ask a model is refused. The server gets an error text,
// and its call continues.
func TestQuestionsForModelsThatAreRefused(t *testing.T) {
	for name, of := range map[string]struct{ keys, params, want string }{
		"the policy":  {"", sampled, "does not have the capability sampling"},
		"tools":       {"servers: {s: {sampling: true}}", strings.Replace(sampled, "{", `{"tools":[{"name":"x","inputSchema":{"type":"object"}}],`, 1), "tools of a server are not given to a model"},
		"messages":    {"servers: {s: {sampling: true}}", `{"messages":[` + strings.Repeat(`{"role":"user","content":{"type":"text","text":"x"}},`, 64) + `{"role":"user","content":{"type":"text","text":"x"}}],"maxTokens":1}`, "64 are passed on"},
		"what is odd": {"servers: {s: {sampling: true}}", `{"messages":[{"role":"user","content":{"type":"nothing"}}],"maxTokens":1}`, "sampling/createMessage"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gate(t, of.keys, "", sampler(of.params))
			g.names()
			asked := make(chan message, 1)
			g.mu.Lock()
			g.asks = func(m message) any {
				asked <- m
				return map[string]any{}
			}
			g.mu.Unlock()
			g.wants("mcp_s_echo", `{"x":1}`, false, `{"x":1}`)
			if !g.received(t, `"id":"ask-1"`, of.want) {
				t.Errorf("the server was not told %q", of.want)
			}
			if len(asked) > 0 {
				t.Errorf("the client was asked %s", (<-asked).Params)
			}
		})
	}
}

// A question that is too large is refused unread.
func TestLargeQuestionsForModels(t *testing.T) {
	large := strings.Replace(sampled, "Say hi", strings.Repeat("x", sampleBytes), 1)
	if _, err := sampleOf("s", json.RawMessage(large)); err == nil || !strings.Contains(err.Error(), "262144 are passed on") {
		t.Errorf("got %v", err)
	}
}

// The number of questions to a model in one call is bounded.
func TestQuestionsForModelsAreFew(t *testing.T) {
	servers := sampler(sampled)
	s := servers["s"]
	for range askedMost {
		s.Rules[0].Do = append([]upstreams.Act{upstreams.Ask("sampling/createMessage", sampled)}, s.Rules[0].Do...)
	}
	g := gate(t, "servers: {s: {sampling: true}}", "", servers)
	g.names()
	asked := make(chan message, 2*askedMost)
	g.mu.Lock()
	g.asks = func(m message) any {
		asked <- m
		return map[string]any{"role": "assistant", "model": "m", "content": map[string]string{"type": "text", "text": "Hi"}}
	}
	g.mu.Unlock()
	g.wants("mcp_s_echo", `{"x":1}`, false, `{"x":1}`)
	if n := len(asked); n != askedMost || !g.received(t, `"id":"ask-9"`, "may ask at most 8 times") {
		t.Errorf("the model was asked %d times", n)
	}
}

// GW24: with roots: true a server gets the directories of its box, and never the roots of
// the client.
func TestServersAskForRoots(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for keys, want := range map[string]string{
		"":                            "does not have the capability roots",
		"servers: {s: {roots: true}}": `{"roots":[{"uri":"file:///opt/test","name":"/opt/test"}]}`,
		"servers: {s: {roots: true, profile: {fs: {workspace: ro, read: [\"READ:/opt/test\"]}}}}": `{"uri":"file:///workspace","name":"/workspace"}`,
	} {
		servers := map[string]upstreams.Server{"s": {
			Tools: []upstreams.Tool{upstreams.Echo, {Name: upstreams.ReceivedTool}},
			Rules: []upstreams.Rule{{On: "tools/call", Has: `"echo"`, Do: []upstreams.Act{upstreams.Ask("roots/list", ""), upstreams.Answer()}}},
		}}
		g := gate(t, strings.ReplaceAll(keys, "READ", filepath.Dir(self)), "", servers)
		g.names()
		g.wants("mcp_s_echo", `{"x":1}`, false, `{"x":1}`)
		if !g.received(t, `"id":"ask-1"`, want) {
			text, _ := g.call("mcp_s_"+upstreams.ReceivedTool, `{}`)
			t.Errorf("with %q the server got %s, want %s", keys, text, want)
		}
	}
}
