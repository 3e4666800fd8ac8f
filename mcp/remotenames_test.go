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

// lost is a tool of the upstream far that has lost the name mcp_far_send.
func lost() mcp.Remote {
	r := farEcho("mcp_far_send_1a2b")
	r.Aliases = []string{"mcp:far.send", "mcp__far__send", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "", "mcp_far_send_1a2b", strings.Repeat("x", 300)}
	r.Names = []string{"send", "mcp_far_send", "a1"}
	return r
}

// A rule that denies or asks holds for a tool of an upstream by each of its names, also by
// those that nobody can call it by; one that allows holds for its own name only.
func TestRulesSeeTheNamesOfRemotes(t *testing.T) {
	log := &reasons{}
	o, with := newOffice(t, "")
	ty := newToy(t, with, func(c *mcp.Config) { c.Audit = log })
	ty.set(t, "far", mcp.Remotes{Tools: []mcp.Remote{lost()}})
	mcp.AddRemoteResources(ty.Server, mcp.RemoteResources{
		Scheme:    "mcp+",
		List:      func(context.Context, *mcp.Session) ([]mcp.Entry, error) { return nil, nil },
		Templates: func(context.Context, *mcp.Session) ([]json.RawMessage, error) { return nil, nil },
		Facts: func(*mcp.Session, string) (policies.Facts, error) {
			return policies.Facts{Tool: "mcp_far_send_1a2b", Upstream: "far"}, nil
		},
		Read: func(context.Context, mcp.Call, string) (json.RawMessage, error) {
			return json.RawMessage(`{"contents":[]}`), nil
		},
	})
	c := ty.connect(t)
	c.greet(revLegacy)
	for rules, want := range map[string]string{
		`{id: r, match: {tool: mcp_far_send}, decision: deny}`:              "deny r",
		`{id: r, match: {tool: "*far.send"}, decision: deny}`:               "deny r",
		`{id: r, match: {tool: a7}, decision: deny}`:                        "deny r", // behind those that can be called
		`{id: r, match: {tool: "xxx*"}, decision: deny}`:                    "deny r", // too long to be called
		`{id: r, match: {tool: send, command: "hi"}, decision: ask}`:        "ask r",
		`{id: r, match: {tool: mcp_far_send_1a2b}, decision: deny}`:         "deny r",
		`{id: r, match: {tool: mcp_far_sen}, decision: deny}`:               "allow default",
		`{id: r, match: {tool: mcp_far_send, upstream: x}, decision: deny}`: "allow default",
	} {
		o.set(t, "rules: ["+rules+"]\n")
		ty.Reloaded()
		c.answerTo(call("1", "mcp:far.send", `{"text":"hi"}`))
		if !strings.HasPrefix(log.last, want+" ") {
			t.Errorf("%s: got %s, want %s", rules, log.last, want)
		}
		if strings.Contains(rules, "command") {
			continue // no command is in a resource
		}
		if c.answerTo(`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"mcp+far://x"}}`); !strings.HasPrefix(log.last, want+" ") {
			t.Errorf("%s, for a resource: got %s, want %s", rules, log.last, want)
		}
	}
	want := []string{"a1", "a2", "a3", "a4", "a5", "a6", "a7", "mcp:far.send", "mcp__far__send", "mcp_far_send", "send", strings.Repeat("x", 300)}
	if diff := cmp.Diff(want, log.facts.ToolNames); diff != "" {
		t.Errorf("the names (-want +got):\n%s", diff)
	}
	for _, name := range []string{"mcp_far_send", "send", "a7"} {
		if a := c.answerTo(call("3", name, `{}`)); a.Error == nil || !strings.Contains(a.raw, "unknown tool") {
			t.Errorf("a call by %s: %s", name, a.raw)
		}
	}
	if c.answerTo(call("4", "echo", `{"text":"hi"}`)); log.facts.Tool != "echo" || log.facts.ToolNames != nil || log.facts.Upstream != "" {
		t.Errorf("an own tool: %+v", log.facts)
	}
}

// A tool with more names than rules are shown is not offered: a rule could miss it.
func TestRemotesOfManyNamesAreRefused(t *testing.T) {
	ty := newToy(t)
	many, long, most := lost(), lost(), lost()
	long.Names = []string{strings.Repeat("x", 4097)}
	for i := range 64 {
		many.Names = append(many.Names, fmt.Sprint(i))
		most.Names = append(most.Names[:i:i], fmt.Sprint(i))
	}
	most.Aliases = nil
	for _, r := range []mcp.Remote{many, long} {
		if refused := ty.SetRemotes("far", mcp.Remotes{Tools: []mcp.Remote{r}}); len(refused) != 1 || !strings.Contains(refused[0].Error(), "more than 64 names, or one of more than 4096 bytes") {
			t.Errorf("%d names: %v", len(r.Names), refused)
		}
	}
	ty.set(t, "far", mcp.Remotes{Tools: []mcp.Remote{most}})
}
