package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// badCalls are calls whose arguments the agent must correct. testdata/badcalls.golden
// contains the answers.
var badCalls = []struct{ name, tool, args string }{
	{"unknown tool", "ecko", `{}`},
	{"unknown tool, nothing near", "teleport", `{}`},
	{"missing argument", "echo", `{}`},
	{"unknown argument", "echo", `{"text":"a","tiems":3}`},
	{"unknown argument, nothing near", "echo", `{"text":"a","colour":"red"}`},
	{"unknown argument in another case", "echo", `{"Text":"a"}`},
	{"unknown argument in another style", "echo", `{"text":"a","onError":"x"}`},
	{"unknown argument of a tool without any", "hang", `{"x":1}`},
	{"argument twice", "echo", `{"text":"a","text":"b"}`},
	{"argument twice by an escape", "echo", `{"text":"a","\u0074ext":"b"}`},
	{"number for a string", "echo", `{"text":5}`},
	{"string for a number", "echo", `{"text":"a","times":"3"}`},
	{"fraction for a whole number", "echo", `{"text":"a","times":1.5}`},
	{"number out of range", "echo", `{"text":"a","times":1e30}`},
	{"string for a truth value", "echo", `{"text":"a","loud":"yes"}`},
	{"null for a string", "echo", `{"text":null}`},
	{"object for a string", "echo", `{"text":{"a":1}}`},
	{"string for an array", "echo", `{"text":"a","tags":"x"}`},
	{"number in an array of strings", "echo", `{"text":"a","tags":["x",7]}`},
	{"texts for names and values", "echo", `{"text":"a","env":["A=1"]}`},
	{"text for names and values", "echo", `{"text":"a","env":"A=1"}`},
	{"a name twice", "echo", `{"text":"a","env":[{"name":"A","value":"1"},{"name":"B","value":"2"},{"name":"\u0041","value":"3"}]}`},
	{"a name twice in an object", "echo", `{"text":"a","env":{"A":"1","\u0041":"3"}}`},
	{"both forms", "echo", `{"text":"a","env":{"A":"1"},"env":[{"name":"A","value":"2"}]}`},
	{"a name without a value", "echo", `{"text":"a","env":[{"name":"A"}]}`},
	{"a value that is null", "echo", `{"text":"a","env":[{"name":"A","value":null}]}`},
	{"a number as a value", "echo", `{"text":"a","env":[{"name":"A","value":1}]}`},
	{"a name with more than a value", "echo", `{"text":"a","env":[{"name":"A","value":"1","export":true}]}`},
	{"null among names and values", "echo", `{"text":"a","env":[null]}`},
	{"null in a map of strings", "echo", `{"text":"a","env":{"A":null}}`},
	{"number in a map of strings", "echo", `{"text":"a","env":{"A":1}}`},
	{"nested: missing", "echo", `{"text":"a","nested":{}}`},
	{"nested: unknown", "echo", `{"text":"a","nested":{"depth":1,"height":2}}`},
	{"nested: wrong", "echo", `{"text":"a","nested":{"depth":"deep"}}`},
	{"several faults at once", "echo", `{"tmies":1,"loud":3,"rate":"fast"}`},
	{"arguments an array", "echo", `[1,2]`},
	{"arguments a string", "echo", `"text"`},
	{"arguments no JSON", "echo", `{"text":`},
}

// Every call is checked against the schema before anything is done (W18, X1).
func TestBadCalls(t *testing.T) {
	ty := newToy(t)
	session, err := ty.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	var b strings.Builder
	for _, tt := range badCalls {
		text, kind := "", "failed result"
		r, err := ty.Call(t.Context(), session, tt.tool, []byte(tt.args))
		switch {
		case err != nil:
			text, kind = err.Error(), "error"
		case !r.IsError:
			t.Errorf("%s: the call was served", tt.name)
			continue
		default:
			text = r.Content[0].Text
		}
		fmt.Fprintf(&b, "## %s\n%s %s\n-> %s\n%s\n\n", tt.name, tt.tool, tt.args, kind, text)
	}
	if n := ty.gate.calls.Load(); n != 0 {
		t.Errorf("the policy was asked about %d calls that could not be read", n)
	}
	golden.Equal(t, "badcalls.golden", b.String())
}

func TestDecodeTakesWhatIsMeant(t *testing.T) {
	ty := newToy(t)
	var seen echoInput
	mcp.AddTool(ty.Server, mcp.Tool{Name: "look", Description: "keeps its input"},
		func(_ context.Context, _ mcp.Call, in echoInput) (*mcp.Result, error) {
			seen = in
			return nil, nil
		})
	session, err := ty.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	args := `{"text":"a\u0062","times":3.0,"loud":true,"rate":1e-1,"tags":["x","y"],"env":{"A":"1"},"nested":{"depth":2},"on_error":"stop"}`
	r, err := ty.Call(t.Context(), session, "look", []byte(args))
	if err != nil || r.IsError {
		t.Fatalf("Call: %+v, %v", r, err)
	}
	got, err := json.Marshal(seen)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"text":"ab","times":3,"loud":true,"rate":0.1,"tags":["x","y"],"env":{"A":"1"},"nested":{"depth":2},"on_error":"stop"}`
	if string(got) != want {
		t.Errorf("the tool saw %s, want %s", got, want)
	}
}

// facts is a gate that keeps the facts that it gets.
type facts struct{ seen policies.Facts }

func (g *facts) Decide(f policies.Facts) policies.Decision {
	g.seen = f
	return policies.Decision{Verdict: policies.Allow}
}

// TestFormsOfArguments checks that the policy and the tool see the same arguments in all
// forms: names and values in an array or an object, and null for an argument that is left
// out.
func TestFormsOfArguments(t *testing.T) {
	const want = `{"env":{"A":"1","a":"","B=":"\u0000"},"nested":{"depth":2},"text":"a"}`
	for _, args := range []string{
		`{"text":"a","nested":{"depth":2},"env":{"A":"1","a":"","B=":"\u0000"}}`,
		`{"text":"a","nested":{"depth":2},"env":[{"name":"A","value":"1"},{"value":"","name":"a"},{"name":"B=","value":"\u0000"}]}`,
		`{"env":[{"name":"B=","value":"\u0000"},{"name":"\u0041","value":"1"},{"name":"a","value":""}],"nested":{"depth":2},"text":"a",
			"times":null,"loud":null,"rate":null,"tags":null,"on_error":null}`,
	} {
		g := &facts{}
		ty := newToy(t, func(c *mcp.Config) { c.Gate = g })
		var seen echoInput
		mcp.AddTool(ty.Server, mcp.Tool{Name: "look"}, func(_ context.Context, _ mcp.Call, in echoInput) (*mcp.Result, error) {
			seen = in
			return mcp.Text("ok"), nil
		})
		session, err := ty.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r, err := ty.Call(t.Context(), session, "look", []byte(args)); err != nil || r.IsError {
			t.Fatalf("Call: %+v, %v", r, err)
		}
		session.Close()
		for who, value := range map[string]any{"the policy": g.seen.Args, "the tool": seen} {
			got, err := json.Marshal(value)
			var one, other any
			if err = errors.Join(err, json.Unmarshal(got, &one), json.Unmarshal([]byte(want), &other)); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(one, other) {
				t.Errorf("%s\n%s sees %s, want %s", args, who, got, want)
			}
		}
	}
	// An argument that is left out or null is not in the map that the policy gets.
	g := &facts{}
	ty := newToy(t, func(c *mcp.Config) { c.Gate = g })
	session, err := ty.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for _, args := range []string{`{"text":"a"}`, `{"text":"a","env":null,"nested":null}`} {
		if r, err := ty.Call(t.Context(), session, "echo", []byte(args)); err != nil || r.IsError || len(g.seen.Args) != 1 {
			t.Errorf("%s: got %+v, %v, the policy saw %v", args, r, err, g.seen.Args)
		}
	}
}

func TestSchemas(t *testing.T) {
	for _, info := range newToy(t).Tools() {
		if info.Name != "echo" {
			continue
		}
		want := `{"type":"object","properties":{"env":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"value":{"type":"string"}},"required":["name","value"],"additionalProperties":false}},"loud":{"type":"boolean"},` +
			`"nested":{"type":"object","properties":{"depth":{"type":"integer"}},"required":["depth"],"additionalProperties":false},` +
			`"on_error":{"type":"string"},"rate":{"type":"number"},"tags":{"type":"array","items":{"type":"string"}},` +
			`"text":{"type":"string","description":"what to say"},"times":{"type":"integer","description":"how often"}},` +
			`"required":["text"],"additionalProperties":false}`
		var got, wanted any
		if err := json.Unmarshal(info.InputSchema, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(wanted) {
			t.Errorf("the schema of echo is\n%s, want\n%s", info.InputSchema, want)
		}
	}
}

func TestAddToolPanics(t *testing.T) {
	for _, name := range []string{"echo", "", "a b", strings.Repeat("x", 65), "naïve"} {
		t.Run(name, func(t *testing.T) {
			ty := newToy(t)
			defer func() {
				if recover() == nil {
					t.Errorf("a tool of the name %q was taken", name)
				}
			}()
			mcp.AddTool(ty.Server, mcp.Tool{Name: name}, func(context.Context, mcp.Call, noInput) (*mcp.Result, error) { return nil, nil })
		})
	}
}
