package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// ledger is an Audit that keeps its records.
type ledger struct {
	refuse error

	mu    sync.Mutex
	lines []string
}

func (l *ledger) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *ledger) Decided(_ context.Context, d mcp.Decided) error {
	l.say("decided %s %s %s %q args=%d", d.Call.Tool, d.Decision.Verdict, d.Decision.Rule, d.Facts.Command, len(d.Facts.Args))
	return l.refuse
}

func (l *ledger) Finished(f mcp.Finished) {
	l.say("finished %s failed=%v", f.Call.Tool, f.Err != nil || f.Result.IsError)
}

// Each call is recorded before it runs, and again after it has ended. A call that cannot be
// recorded does not run.
func TestAudit(t *testing.T) {
	for _, tt := range []struct {
		name, tool, args string
		refuse           error
		want             []string
		answer           string
	}{
		{"allowed", "echo", `{"text":"hi"}`, nil, []string{`decided echo allow all "hi" args=1`, "finished echo failed=false"}, ""},
		{"denied", "echo", `{"text":"forbidden"}`, nil, []string{`decided echo deny no-forbidden "forbidden" args=1`}, "DENIED"},
		{"arguments", "echo", `{"texd":1}`, nil, []string{`decided echo deny arguments "" args=0`}, "not run"},
		{"panic", "panic", `{}`, nil, []string{`decided panic allow all "" args=0`, "finished panic failed=true"}, "internal error"},
		{"full disk", "echo", `{"text":"hi"}`, errors.New("no space"), []string{`decided echo allow all "hi" args=1`}, "audit log"},
		{"full disk, denied", "echo", `{"text":"forbidden"}`, errors.New("no space"), []string{`decided echo deny no-forbidden "forbidden" args=1`}, "rule no-forbidden"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &ledger{refuse: tt.refuse}
			ty := newToy(t, func(c *mcp.Config) { c.Audit = l })
			session, err := ty.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			r, err := ty.Call(t.Context(), session, tt.tool, json.RawMessage(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := strings.Join(l.lines, "\n"), strings.Join(tt.want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if !strings.Contains(r.Content[0].Text, tt.answer) || r.IsError != (tt.answer != "") {
				t.Errorf("answered %+v, want %q", r, tt.answer)
			}
		})
	}
}

// The warnings of the policy are added to the result of the allowed call.
func TestWarnings(t *testing.T) {
	p, err := policies.Parse("policy.yaml", []byte(`version: 1
profiles: {offline: {}}
rules:
  - {id: all, match: {tool: "*"}, decision: allow}
  - {id: soon, mode: warn, match: {tool: "*"}, decision: deny, instead: Nothing.}
  - {id: seen, mode: audit, match: {tool: "*"}, decision: deny}
`))
	if err != nil {
		t.Fatal(err)
	}
	ty := newToy(t, func(c *mcp.Config) { c.Gate = p })
	session, err := ty.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for tool, args := range map[string]string{"echo": `{"text":"hi"}`, "panic": "{}"} {
		r, err := ty.Call(t.Context(), session, tool, json.RawMessage(args))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(r.Content); n != 2 || !strings.HasPrefix(r.Content[1].Text, "WARNING by policy rule soon (policy.yaml:5): this c") ||
			!strings.HasSuffix(r.Content[1].Text, " was let through, and will be denied once the rule is enforced. Do this instead: Nothing.") {
			t.Errorf("%s: got %+v", tool, r.Content)
		}
	}
}

// A text that the policy wants removed from a result is in no part of the result. If no
// code can remove it, the call does not run.
func TestRedact(t *testing.T) {
	p, err := policies.Parse("policy.yaml", []byte(`version: 1
profiles: {offline: {}}
rules:
  - {id: all, match: {tool: "*"}, decision: allow, obligations: {redact: [emails]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, able := range []bool{true, false} {
		ty := newToy(t, func(c *mcp.Config) {
			c.Gate = p
			if able {
				c.Redact = func(text string, what []policies.Redaction) string {
					if len(what) != 1 || what[0] != policies.RedactEmails {
						t.Errorf("got %v", what)
					}
					return strings.ReplaceAll(text, "secret", "[redacted]")
				}
			}
		})
		session, err := ty.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { session.Close() })
		r, err := ty.Call(t.Context(), session, "echo", json.RawMessage(`{"text":"a secret <b>"}`))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case !able && (!r.IsError || !strings.Contains(r.Content[0].Text, "DENIED by policy rule redact")):
			t.Errorf("got %s", raw)
		case able && (r.IsError || strings.Contains(string(raw), "secret") || !strings.Contains(r.Content[0].Text, "a [redacted] <b>")):
			t.Errorf("got %s", raw)
		}
	}
}

// If a result must be redacted, the progress messages of the tool are left out: a text
// could be split over two messages, neither of which contains the whole text.
func TestRedactKeepsProgressQuiet(t *testing.T) {
	for _, obliged := range []string{"", ", obligations: {redact: [emails]}"} {
		p, err := policies.Parse("policy.yaml", []byte("version: 1\nprofiles: {offline: {}}\nrules: [{id: all, match: {tool: \"*\"}, decision: allow"+obliged+"}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		c := newToy(t, func(cfg *mcp.Config) {
			cfg.Gate, cfg.Redact = p, func(text string, _ []policies.Redaction) string { return text }
		}).connect(t)
		c.greet(revLegacy)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"steps","arguments":{},"_meta":{"progressToken":"tok"}}}`)
		said := 0
		a := c.next()
		for a.Method == "notifications/progress" {
			said += strings.Count(a.raw, "step ")
			a = c.next()
		}
		if want := map[string]int{"": 3}[obliged]; said != want || !strings.Contains(a.raw, `"text":"done"`) {
			t.Errorf("with %q: %d steps are told, want %d, and the answer is %s", obliged, said, want, a.raw)
		}
	}
}
