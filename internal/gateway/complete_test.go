package gateway

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/mcptest/upstreams"
)

// Values of arguments of prompts and of variables of templates come from the server, which
// gets its own names. An argument that the server does not offer, or that the policy
// denies, is not completed.
func TestCompletions(t *testing.T) {
	values := `"` + strings.Repeat("x", 5000) + `","` + strings.Join(strings.Fields(strings.Repeat("v ", 120)), `","`) + `"`
	answer := func(values string) upstreams.Act {
		// the id belongs to no call, so the only open call takes the answer
		return upstreams.Print(`{"jsonrpc":"2.0","id":9999999,"result":{"completion":{"values":[` + values + `],"total":500,"hasMore":true}}}` + "\n")
	}
	g := gate(t, "", "", map[string]upstreams.Server{"s": {
		Results: map[string]json.RawMessage{
			"initialize":               json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{"prompts":{},"resources":{},"completions":{}},"serverInfo":{"name":"s","version":"1"}}`),
			"prompts/list":             json.RawMessage(`{"prompts":[{"name":"a.b","arguments":[{"name":"x"}]}]}`),
			"resources/list":           json.RawMessage(`{"resources":[]}`),
			"resources/templates/list": json.RawMessage(`{"resourceTemplates":[{"uriTemplate":"note://{id}/{of}","name":"note"}]}`),
		},
		Rules: []upstreams.Rule{
			{On: "completion/complete", Has: `"ref":{"name":"a.b","type":"ref/prompt"}`, Do: []upstreams.Act{answer(values)}},
			{On: "completion/complete", Has: `"context":{"arguments":{"of":"me"}},"ref":{"type":"ref/resource","uri":"note://{id}/{of}"}`, Do: []upstreams.Act{answer(`"one"`)}},
			{On: "completion/complete", Has: `"value":"odd"`, Do: []upstreams.Act{answer(`1`)}},
		},
	}})
	g.ask("prompts/list", "{}")
	complete := func(ref, name, typed, more string) (values []string, raw string) {
		t.Helper()
		m := g.ask("completion/complete", `{"ref":`+ref+`,"argument":{"name":"`+name+`","value":"`+typed+`"}`+more+`}`)
		if m.Error != nil {
			return nil, m.Error.Message
		}
		var r struct {
			Completion struct {
				Values []string
			}
		}
		if err := json.Unmarshal(m.Result, &r); err != nil {
			t.Fatal(err)
		}
		return r.Completion.Values, string(m.Result)
	}
	prompt, template := `{"type":"ref/prompt","name":"mcp_s_a_b"}`, `{"type":"ref/resource","uri":"mcp+s://note///{id}/{of}"}`
	given := `,"context":{"arguments":{"of":"me"}}`
	if got, raw := complete(prompt, "x", "v", ""); len(got) != 100 || !strings.Contains(raw, `"total":500`) || !strings.Contains(raw, `"hasMore":true`) || strings.Contains(raw, "xxx") {
		t.Errorf("got %d values: %s", len(got), raw)
	}
	if got, raw := complete(template, "id", "o", given); len(got) != 1 || got[0] != "one" {
		t.Errorf("got %s", raw)
	}
	for name, ref := range map[string]string{
		"a prompt that is not there":     `{"type":"ref/prompt","name":"mcp_s_other"}`,
		"a template that is not there":   `{"type":"ref/resource","uri":"mcp+s://note///{other}"}`,
		"the template of another server": `{"type":"ref/resource","uri":"mcp+t://note///{id}/{of}"}`,
	} {
		// a message of the server must not be the answer
		if got, raw := complete(ref, "x", "", ""); got != nil || strings.HasPrefix(raw, "{") || strings.Contains(raw, "method not found") {
			t.Errorf("%s: got %s", name, raw)
		}
	}
	if _, raw := complete(prompt, "x", strings.Repeat("v", 1001), ""); !strings.Contains(raw, "at most 1000") {
		t.Errorf("a long value: %s", raw)
	}
	g.use("", `rules: [{id: no, match: {tool: mcp_s_prompts}, decision: deny}, {id: perhaps, match: {tool: mcp_s_resources}, decision: ask}]`)
	for _, ref := range []string{prompt, template} {
		if got, raw := complete(ref, "id", "o", given); len(got) != 0 || !strings.Contains(raw, `"values":[]`) {
			t.Errorf("a refused completion has %s", raw)
		}
	}
}

// A server that does not answer delays a person who is typing for a few seconds at most. A
// server without completions gets no request.
func TestCompletionsThatDoNotCome(t *testing.T) {
	results := func(capabilities string) map[string]json.RawMessage {
		return map[string]json.RawMessage{
			"initialize":   json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{"prompts":{}` + capabilities + `},"serverInfo":{"name":"s","version":"1"}}`),
			"prompts/list": json.RawMessage(`{"prompts":[{"name":"p","arguments":[{"name":"x"}]}]}`),
		}
	}
	g := gate(t, "", "", map[string]upstreams.Server{
		"hangs": {Results: results(`,"completions":{}`), Rules: upstreams.On("completion/complete")},
		"none":  {Results: results(""), Rules: upstreams.On("completion/complete", upstreams.Exit(1))},
	})
	g.ask("prompts/list", "{}")
	began := time.Now()
	m := g.ask("completion/complete", `{"ref":{"type":"ref/prompt","name":"mcp_hangs_p"},"argument":{"name":"x","value":""}}`)
	if took := time.Since(began); m.Error == nil || took > 4*completeTime {
		t.Errorf("after %v: %s", took, m.Result)
	}
	if m := g.ask("completion/complete", `{"ref":{"type":"ref/prompt","name":"mcp_none_p"},"argument":{"name":"x","value":""}}`); string(m.Result) != `{"completion":{"values":[]}}` {
		t.Errorf("got %+v %s", m.Error, m.Result)
	}
}
