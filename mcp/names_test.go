package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// A client chooses its own name, which operators, people and logs see: it is one short line.
func TestNamesOfClientsAreShortLines(t *testing.T) {
	ty := newToy(t)
	c := ty.connect(t)
	name, err := json.Marshal("evil\x1b[2J\n" + strings.Repeat("x", 100_000))
	if err != nil {
		t.Fatal(err)
	}
	c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":` + string(name) + `,"version":` + string(name) + `}}}`)
	if a := c.next(); a.short() != "1: ok" {
		t.Fatal(a.raw)
	}
	for _, s := range ty.Sessions() {
		for _, text := range []string{s.Client, s.Version} {
			if len(text) > 200 || strings.ContainsAny(text, "\x1b\n") || !strings.HasPrefix(text, "evil") {
				t.Errorf("a session has %d bytes of a client's name: %.100q", len(text), text)
			}
		}
	}
}

// The report of a fault goes to the agent's model and to the audit log, so it does not
// contain the whole of a long name.
func TestFaultsOfLongNamesAreShort(t *testing.T) {
	long := strings.Repeat("x", 500_000)
	for _, args := range []string{
		`{"text":"a","` + long + `":1}`,
		`{"text":"a","` + long + `":1,"` + long + `":2}`,
		`{"text":"a","env":[{"name":"` + long + `","value":"1"},{"name":"` + long + `","value":"2"}]}`,
		`{"text":"a","env":{"` + long + `":1}}`,
		`{"text":"a","nested":{"` + long + `":1}}`,
	} {
		ty := newToy(t)
		session, err := ty.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r, err := ty.Call(t.Context(), session, "echo", []byte(args))
		if err != nil || !r.IsError || len(r.Content[0].Text) > 4096 {
			t.Errorf("%.40s: the answer has %d bytes, want at most 4096; %v", args, len(r.Content[0].Text), err)
		}
		session.Close()
	}
}

// What a client completes is shown to rules as a whole: a name of the client's choice does
// not replace what is completed, and the values of other arguments are shown too.
func TestRulesSeeWhatIsCompleted(t *testing.T) {
	for _, denied := range []string{"args.of == 'mcp_far_secrets'", "args.arguments.code == 'forbidden'"} {
		p, err := policies.Parse("policy.yaml", []byte("version: 1\nprofiles: {p: {}}\nrules:\n  - {id: all, match: {tool: \"*\"}, decision: allow}\n  - {id: no, match: {upstream: far}, when: \""+denied+"\", decision: deny, instead: Nothing.}\n"))
		if err != nil {
			t.Fatal(err)
		}
		ty, reached := newToy(t, func(c *mcp.Config) { c.Gate = p }), 0
		ty.AddPrompts(mcp.PromptSource{
			List: func(context.Context, *mcp.Session) ([]mcp.Prompt, error) {
				return []mcp.Prompt{{Name: "mcp_far_secrets", Arguments: []mcp.Argument{{Name: "of"}, {Name: "code"}}}}, nil
			},
			Facts: func(*mcp.Session, string, map[string]string) policies.Facts {
				return policies.Facts{Tool: "mcp_far_prompts", Upstream: "far"}
			},
			GetGranted: func(context.Context, mcp.Call, string, map[string]string) ([]mcp.Message, error) { return nil, nil },
			CompleteGranted: func(context.Context, mcp.Call, mcp.Completing) (mcp.Completion, error) {
				reached++
				return mcp.Completion{Values: []string{"x"}}, nil
			},
		})
		c := ty.connect(t)
		c.greet(revLegacy)
		a := c.answerTo(`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"mcp_far_secrets"},"argument":{"name":"of","value":"harmless"},"context":{"arguments":{"code":"forbidden"}}}}`)
		if reached != 0 {
			t.Errorf("a rule with %s did not see the request; it was answered with %s", denied, a.raw)
		}
	}
}
