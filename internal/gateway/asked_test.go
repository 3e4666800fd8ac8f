package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"belljar.dev/internal/mcptest/upstreams"
)

// GW24: a question of a server reaches a client of 2026-07-28 as the result of its call, also if
// the server fails without the answer. The client makes the call again with the answer.
func TestQuestionsInAResult(t *testing.T) {
	ask := upstreams.Ask("elicitation/create", `{"message":"Your colour?","requestedSchema":{"type":"object","properties":{"colour":{"type":"string"}}}}`)
	g := gate(t, "", "", map[string]upstreams.Server{"s": {Rules: []upstreams.Rule{
		{On: "tools/call", Nth: 1, Do: []upstreams.Act{ask, upstreams.Fail(-32603, "nobody answers")}},
		{On: "tools/call", Do: []upstreams.Act{ask, upstreams.Answer()}},
	}}})
	g.names()
	type result struct {
		Type     string                     `json:"resultType"`
		Requests map[string]json.RawMessage `json:"inputRequests"`
		State    string                     `json:"requestState"`
	}
	call := func(more string) (r result, raw string) {
		t.Helper()
		m := g.ask("tools/call", `{"name":"mcp_s_echo","arguments":{"x":1},`+more+`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}`)
		if m.Error != nil {
			t.Fatalf("%+v", m.Error)
		}
		if err := json.Unmarshal(m.Result, &r); err != nil {
			t.Fatal(err)
		}
		return r, string(m.Result)
	}
	r, raw := call("")
	if len(r.Requests) != 1 || r.Type != "input_required" || !strings.Contains(raw, "Your colour?") {
		t.Fatalf("got %s", raw)
	}
	answers := make(map[string]any)
	for id := range r.Requests {
		answers[id] = map[string]any{"action": "accept", "content": map[string]string{"colour": "red"}}
	}
	text, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	if _, raw := call(`"inputResponses":` + string(text) + `,"requestState":"` + r.State + `",`); !strings.Contains(raw, `{\"x\":1}`) {
		t.Errorf("got %s", raw)
	}
}

// A resource that the server does not have is one that belljar does not have, by the code of the
// client's era.
func TestResourceThatIsNotThere(t *testing.T) {
	g := gate(t, "", "", map[string]upstreams.Server{"s": {
		Results: map[string]json.RawMessage{"initialize": json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{"resources":{}},"serverInfo":{"name":"s","version":"1"}}`), "resources/list": json.RawMessage(`{"resources":[]}`)},
		Rules: []upstreams.Rule{
			{On: "resources/read", Has: "gone", Do: []upstreams.Act{upstreams.Fail(-32002, "no such note")}},
			{On: "resources/read", Do: []upstreams.Act{upstreams.Fail(-32602, "odd params")}},
		},
	}})
	g.ask("resources/list", "{}")
	if m := g.ask("resources/read", `{"uri":"mcp+s://note///gone"}`); m.Error == nil || m.Error.Code != -32002 {
		t.Errorf("got %+v %s", m.Error, m.Result)
	}
	if m := g.ask("resources/read", `{"uri":"mcp+s://note///odd"}`); m.Error == nil || m.Error.Code == -32002 {
		t.Errorf("another error: got %+v %s", m.Error, m.Result)
	}
}

// What a server asks that is not a form is refused, and its call goes on: addresses to open, and
// requests that belljar passes on for nobody.
func TestQuestionsThatAreRefused(t *testing.T) {
	g := gate(t, "", "", map[string]upstreams.Server{"s": {Rules: []upstreams.Rule{
		{On: "tools/call", Has: "sampling", Do: []upstreams.Act{upstreams.Ask("sampling/createMessage", `{"messages":[],"maxTokens":1}`), upstreams.Answer()}},
		{On: "tools/call", Has: "roots", Do: []upstreams.Act{upstreams.Ask("roots/list", ""), upstreams.Answer()}},
		{On: "tools/call", Has: "address", Do: []upstreams.Act{upstreams.Ask("elicitation/create", `{"mode":"url","message":"Log in","url":"javascript:alert(1)","elicitationId":"1"}`), upstreams.Answer()}},
		{On: "tools/call", Has: "fields", Do: []upstreams.Act{upstreams.Ask("elicitation/create", `{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"object"}}}}`), upstreams.Answer()}},
	}}})
	g.names()
	asked := make(chan string, 10)
	g.mu.Lock()
	g.asks = func(m message) any {
		asked <- m.Method + string(m.Params)
		return map[string]any{"action": "accept"}
	}
	g.mu.Unlock()
	for _, kind := range []string{"sampling", "roots", "address", "fields"} {
		g.wants("mcp_s_echo", `{"x":"`+kind+`"}`, false, kind)
	}
	select {
	case what := <-asked:
		t.Errorf("the client was asked %s", what)
	default:
	}
}

// A server of 2026-07-28 is told for each call whether its client can be asked.
func TestServersAreToldWhoCanBeAsked(t *testing.T) {
	g := gate(t, "", "", map[string]upstreams.Server{"s": {Modern: true, Rules: []upstreams.Rule{
		{On: "tools/call", Has: `"io.modelcontextprotocol/clientCapabilities":{}`, Do: []upstreams.Act{upstreams.Fail(-32603, "nobody can be asked")}},
	}}})
	g.names()
	for capabilities, want := range map[string]string{`{}`: "nobody can be asked", `{"elicitation":{}}`: `\"x\":1`} {
		m := g.ask("tools/call", `{"name":"mcp_s_echo","arguments":{"x":1},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":`+capabilities+`}}`)
		text := string(m.Result)
		if m.Error != nil {
			text = m.Error.Message
		}
		if !strings.Contains(text, want) {
			t.Errorf("a client with %s: got %s, want %s", capabilities, text, want)
		}
	}
}
