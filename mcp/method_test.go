package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

type sayInput struct {
	Text string         `json:"text"`
	More map[string]any `json:"more,omitempty"`
}

func (in sayInput) Facts() policies.Facts { return policies.Facts{Command: in.Text} }

type sayOutput struct {
	Said string         `json:"said"`
	More map[string]any `json:"more,omitempty"`
}

// addMethods adds tools that are also methods.
func addMethods(s *mcp.Server) {
	mcp.AddTool(s, mcp.Tool{Name: "say", Method: true}, func(_ context.Context, _ mcp.Call, in sayInput) (*mcp.Result, error) {
		return &mcp.Result{Content: []mcp.Content{{Text: in.Text}}, Structured: sayOutput{in.Text, in.More}}, nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "judge", Method: true}, func(context.Context, mcp.Call, noInput) (*mcp.Result, error) {
		r := mcp.Failed("it did not pass")
		r.Structured = sayOutput{Said: "no"}
		return r, nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "break", Method: true}, func(context.Context, mcp.Call, noInput) (*mcp.Result, error) {
		return nil, fmt.Errorf("it broke")
	})
	mcp.AddTool(s, mcp.Tool{Name: "shout", Method: true}, func(context.Context, mcp.Call, noInput) (*mcp.Result, error) {
		panic("secret reason")
	})
	mcp.AddTool(s, mcp.Tool{Name: "nothing", Method: true}, func(context.Context, mcp.Call, noInput) (*mcp.Result, error) {
		return mcp.Text("nothing"), nil
	})
}

// A tool can also be a method (W21, C10). Over each transport and in each era, the
// structured result is the result of the method, and the gate decides the call.
func TestToolsAsMethods(t *testing.T) {
	site := newSite(t)
	addMethods(site.Server)
	old, young := site.connect(t), site.connect(t)
	old.greet("2024-11-05")
	session := site.greet()
	over := func(method, params string) map[string]answer {
		legacy := `{"jsonrpc":"2.0","id":"a","method":"` + method + `","params":{` + params + `}}`
		with := params
		if with != "" {
			with += ","
		}
		now := modern(`"a"`, method, with)
		old.send(legacy)
		young.send(now)
		return map[string]answer{
			"stdio 2024-11-05": old.next(), "stdio 2026-07-28": young.next(),
			"http 2025-11-25": site.do("POST", legacy, session...).last(), "http 2026-07-28": site.do("POST", now, modernHeaders(method, "")...).last(),
		}
	}
	for _, tt := range []struct {
		method, params string
		result         string // without resultType; empty for an error
		code           int
		text           string // part of the error
	}{
		{"say", `"text":"hi"`, `{"said":"hi"}`, 0, ""},
		{"say", `"text":"hi","more":{"a":[1,null,{"b":true}]}`, `{"said":"hi","more":{"a":[1,null,{"b":true}]}}`, 0, ""},
		{"say", `"text":"_meta \" \\ \u0001"`, `{"said":"_meta \" \\ \u0001"}`, 0, ""},
		{"say", ``, "", -32602, `invalid params: argument "text" is missing`},
		{"say", `"text":5`, "", -32602, `invalid params: argument "text" is the number 5; it must be a string`},
		{"say", `"text":"x","more":[]`, "", -32602, `argument "more" is an array; it must be an object`},
		{"say", `"txt":"x"`, "", -32602, `did you mean "text"?`},
		{"say", `"text":"forbidden"`, "", -32603, "it is forbidden"},
		{"judge", ``, `{"said":"no"}`, 0, ""},
		{"nothing", ``, `{}`, 0, ""},
		{"break", ``, "", -32603, "it broke"},
		{"shout", ``, "", -32603, "internal error in call c-"},
		{"echo", `"text":"hi"`, "", -32601, "echo"},
		{"Say", `"text":"hi"`, "", -32601, "Say"},
	} {
		before := site.gate.calls.Load()
		for where, got := range over(tt.method, tt.params) {
			if tt.result == "" {
				if got.Error == nil || got.Error.Code != tt.code || !strings.Contains(got.Error.Message, tt.text) {
					t.Errorf("%s %s %s: got %s, want %d with %s", where, tt.method, tt.params, got.raw, tt.code, tt.text)
				}
				if strings.Contains(got.raw, "secret reason") {
					t.Errorf("%s %s: tells the panic: %s", where, tt.method, got.raw)
				}
				continue
			}
			var result, want map[string]any
			if err := json.Unmarshal(got.Result, &result); err != nil {
				t.Errorf("%s %s %s: got %s", where, tt.method, tt.params, got.raw)
				continue
			}
			if err := json.Unmarshal([]byte(tt.result), &want); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(where, "2026-07-28") {
				want["resultType"] = "complete"
			}
			if d := cmp.Diff(want, result); d != "" {
				t.Errorf("%s %s %s (-want +got):\n%s", where, tt.method, tt.params, d)
			}
		}
		if n, decided := site.gate.calls.Load()-before, tt.code != -32601 && tt.code != -32602; decided != (n == 4) || !decided && n != 0 {
			t.Errorf("%s %s: the gate was asked %d times", tt.method, tt.params, n)
		}
	}
	// A refusal names the rule, as the refusal of a tools/call does.
	for where, got := range over("say", `"text":"forbidden"`) {
		if !strings.Contains(got.raw, `"reason":"refused"`) || !strings.Contains(got.raw, `"rule":"no-forbidden"`) {
			t.Errorf("%s: got %s", where, got.raw)
		}
	}
	// A request for a method must not also have a name in its header: a proxy that reads
	// the header would see another tool.
	for _, name := range []string{"say", "echo"} {
		before := site.gate.calls.Load()
		r := site.do("POST", modern("8", "say", `"text":"hi",`), modernHeaders("say", name)...)
		if r.status < 400 || r.last().Error == nil || site.gate.calls.Load() != before {
			t.Errorf("with the name %s in its header: %d %s", name, r.status, r.raw)
		}
	}
	// A client that declares tasks gets the answer immediately.
	young.send(strings.Replace(modern("7", "say", `"text":"hi",`), `"io.modelcontextprotocol/clientCapabilities":{`, `"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}`, 1))
	if got := young.next(); !strings.Contains(got.raw, `"said":"hi"`) {
		t.Errorf("with tasks: got %s", got.raw)
	}
}

// If the scopes of a token are not enough for a tool, they are not enough for the tool's
// method either.
func TestScopesOfMethods(t *testing.T) {
	_, with := newOffice(t, twoScopes)
	s := newSite(t, with)
	addMethods(s.Server)
	for scope, want := range map[string]int{"read": 403, "all": 200} {
		headers := append(modernHeaders("say", ""), "Authorization", "Bearer token-a@"+scope)
		if r := s.do("POST", modern("1", "say", `"text":"hi",`), headers...); r.status != want {
			t.Errorf("with the scope %s: got %d %s, want %d", scope, r.status, r.raw, want)
		}
	}
}
