package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"belljar.dev/internal/mcptest/upstreams"
)

// GW24: a question of a server reaches a client of 2026-07-28 as the result of its call.
// The client makes the call again with the answer, and the server continues with its call:
// it does not get another one. An answer counts once.
func TestQuestionsInAResult(t *testing.T) {
	ask := func(what string) upstreams.Act {
		return upstreams.Ask("elicitation/create", `{"message":"`+what+`","requestedSchema":{"type":"object","properties":{"colour":{"type":"string"}}}}`)
	}
	g := gate(t, "", "", map[string]upstreams.Server{"s": {Rules: []upstreams.Rule{
		{On: "tools/call", Nth: 1, Do: []upstreams.Act{ask("Your colour?"), ask("Another one?"), upstreams.Answer()}},
		{On: "tools/call", Do: []upstreams.Act{upstreams.Fail(-32603, "called again")}},
	}}})
	g.names()
	first := g.modern(t, "", "Your colour?")
	second := g.modern(t, first.answer(t), "Another one?")
	if m := g.askModern(first.answer(t)); !strings.Contains(string(m.Result), "has ended") {
		t.Errorf("an answer twice: got %s %+v", m.Result, m.Error)
	}
	if m := g.askModern(second.answer(t)); !strings.Contains(string(m.Result), `{\"x\":1}`) {
		t.Errorf("got %s %+v", m.Result, m.Error)
	}
	if m := g.askModern(""); !strings.Contains(string(m.Result)+m.failure(), "called again") {
		t.Errorf("the rule for a second call: got %s %+v", m.Result, m.Error)
	}
}

// The number of calls of a tenant that wait for their clients is bounded. They end with
// their server.
func TestCallsThatAreKeptAreFew(t *testing.T) {
	g := gate(t, "", "tenants: {local: {limit: {calls: 1000/s, burst: 1000}}}", map[string]upstreams.Server{"s": {Modern: true, Results: map[string]json.RawMessage{
		"tools/call": json.RawMessage(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"Why?","requestedSchema":{"type":"object","properties":{}}}}}}`),
	}}})
	g.names()
	var last asks
	for range keptMost {
		last = g.modern(t, "", "Why?")
	}
	if m := g.askModern(""); strings.Contains(string(m.Result), "inputRequests") || !strings.Contains(string(m.Result)+m.failure(), errManyKept.Error()) {
		t.Errorf("one more than %d: got %s %+v", keptMost, m.Result, m.Error)
	}
	g.modern(t, last.answer(t), "Why?") // the answer uses the place of its own call
	g.Close()
	g.calls.kept.mu.Lock()
	defer g.calls.kept.mu.Unlock()
	if n := len(g.calls.kept.waiting); n > 0 {
		t.Errorf("%d calls wait after the end", n)
	}
}

// asks is a result that asks a client of 2026-07-28.
type asks struct {
	Type     string                     `json:"resultType"`
	Requests map[string]json.RawMessage `json:"inputRequests"`
	State    string                     `json:"requestState"`
}

// answer returns the members of the params with which the client makes its call again.
func (r asks) answer(t *testing.T) string {
	t.Helper()
	answers := make(map[string]any)
	for id := range r.Requests {
		answers[id] = map[string]any{"action": "accept", "content": map[string]string{"colour": "red"}}
	}
	text, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	return `"inputResponses":` + string(text) + `,"requestState":"` + r.State + `",`
}

// askModern calls the tool echo of the server s as a client of 2026-07-28 that shows forms.
func (g *gated) askModern(more string) message { return g.modernWith(`{"elicitation":{}}`, more) }

// modern is askModern for a call whose result must ask something.
func (g *gated) modern(t *testing.T, more, want string) (r asks) {
	t.Helper()
	m := g.askModern(more)
	if err := json.Unmarshal(m.Result, &r); err != nil || len(r.Requests) != 1 || r.Type != "input_required" || !strings.Contains(string(m.Result), want) {
		t.Fatalf("want a question %q, got %s %+v %v", want, m.Result, m.Error, err)
	}
	return r
}

// failure returns the message of an error.
func (m message) failure() string {
	if m.Error == nil {
		return ""
	}
	return m.Error.Message
}

// If the server does not have a resource, belljar reports that the resource does not exist,
// with the code of the client's era.
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

// A request of a server that is not a form is refused, and its call continues. This holds
// for addresses to open, and for requests that belljar never passes on.
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

// A server of 2026-07-28 is informed with each call whether its client can be asked.
func TestServersAreToldWhoCanBeAsked(t *testing.T) {
	g := gate(t, "", "", map[string]upstreams.Server{"s": {Modern: true, Rules: []upstreams.Rule{
		{On: "tools/call", Has: `"io.modelcontextprotocol/clientCapabilities":{}`, Do: []upstreams.Act{upstreams.Fail(-32603, "nobody can be asked")}},
	}}})
	g.names()
	for capabilities, want := range map[string]string{`{}`: "nobody can be asked", `{"elicitation":{}}`: `\"x\":1`} {
		m := g.modernWith(capabilities, "")
		text := string(m.Result)
		if m.Error != nil {
			text = m.Error.Message
		}
		if !strings.Contains(text, want) {
			t.Errorf("a client with %s: got %s, want %s", capabilities, text, want)
		}
	}
}
