package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
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

// A rule that denies or asks matches a tool of an upstream by each of its names, including
// the names by which nobody can call the tool. A rule that allows matches the tool's own
// name only.
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
		`{id: r, match: {tool: mcp_far_send}, decision: deny}`: "deny r",
		`{id: r, match: {tool: "*far.send"}, decision: deny}`:  "deny r",
		// follows the aliases that can be called
		`{id: r, match: {tool: a7}, decision: deny}`:                        "deny r",
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
			continue // a read of a resource has no command
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

// A tool with more names than the policy compares is not offered, because a rule could miss
// it.
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

// A rule that names the upstream hides its tools in the same way as a rule that names the
// tool: a hidden tool is not listed, no error mentions it, and no call of it runs. Tools
// that some call can use are listed, and run.
func TestHiddenRemotes(t *testing.T) {
	writes := defined("mcp_far_write", `{"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false}}`)
	near := farEcho("mcp_near_echo")
	tools := []string{far, lost().Name, writes.Name, near.Name, "echo"}
	for rules, want := range map[string][]string{
		``: tools,
		`{id: r, match: {upstream: far}, decision: deny}`:                                     {near.Name, "echo"},
		`{id: r, match: {upstream: "*"}, unless: {upstream: far}, decision: deny}`:            {far, lost().Name, writes.Name, "echo"},
		`{id: r, match: {upstream: far, annotations: {readOnlyHint: false}}, decision: deny}`: {far, lost().Name, near.Name, "echo"},
		`{id: r, match: {tool: mcp_far_send}, decision: deny}`:                                {far, writes.Name, near.Name, "echo"},
		`{id: r, match: {upstream: far, host: "*"}, decision: deny}`:                          tools,
		`{id: r, match: {tool: mcp_far_send}, mode: warn, decision: deny}`:                    tools,
	} {
		_, with := newOffice(t, "tenants: {a: {}}\nrules: ["+rules+"]\n")
		s := newSite(t, with, func(c *mcp.Config) { c.Tenant = "a" })
		s.set(t, "far", mcp.Remotes{Tools: []mcp.Remote{farEcho(far), lost(), writes}})
		s.set(t, "near", mcp.Remotes{Tools: []mcp.Remote{near}})
		legacy := s.connect(t)
		legacy.greet(revLegacy)
		auth := []string{"Authorization", "Bearer token-a"}
		http := s.do("POST", modern("1", "tools/list", ""), append(modernHeaders("tools/list", ""), auth...)...).last().tools(t)
		stdio := legacy.answerTo(req("1", "tools/list")).tools(t)
		mistake := legacy.answerTo(call("2", "mcp_nobody", `{}`)).raw
		mistake = strings.ReplaceAll(mistake, `"`, ",")
		for _, tool := range tools {
			listed := slices.Contains(want, tool)
			if (http[tool] != nil) != listed || (stdio[tool] != nil) != listed || strings.Contains(mistake, " "+tool+",") != listed {
				t.Errorf("%s: %s is listed over HTTP: %v, over stdio: %v, and known: %s", rules, tool, http[tool] != nil, stdio[tool] != nil, mistake)
			}
			for _, a := range []answer{
				legacy.answerTo(call("3", tool, `{"text":"hi"}`)),
				s.do("POST", modernTool(tool, `{"text":"hi"}`, ""), append(modernHeaders("tools/call", tool), auth...)...).last(),
			} {
				if ran := a.text() == "hi"; ran != listed {
					t.Errorf("%s: a call of %s, which is listed: %v: %s", rules, tool, listed, a.raw)
				}
			}
		}
	}
}

// A session's own layer can hide the tools of an upstream from that session alone, and its
// client is notified.
func TestSessionHidesRemotes(t *testing.T) {
	_, with := newOffice(t, "")
	sessions := make(chan *mcp.Session, 1)
	ty := newToy(t, with)
	r := farEcho(far)
	r.Run = func(_ context.Context, c mcp.Call, _ json.RawMessage) (*mcp.Result, error) {
		sessions <- c.Session
		return mcp.Text("ran"), nil
	}
	ty.set(t, "far", mcp.Remotes{Tools: []mcp.Remote{r}})
	one, two := ty.connect(t), ty.connect(t)
	one.greet(revLegacy)
	two.greet(revLegacy)
	one.answerTo(call("1", far, `{}`))
	session := <-sessions
	l, err := policies.ParseLayer(policies.LayerSession, "plan", []byte("version: 1\nrules: [{id: plan-only, match: {upstream: far}, decision: deny}]\n"), policies.Default())
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range []*policies.Layer{l, nil} {
		session.Narrow(layer)
		if a := one.next(); a.Method != "notifications/tools/list_changed" {
			t.Errorf("got %s", a.raw)
		}
		if tools := one.answerTo(req("2", "tools/list")).tools(t); (tools[far] == nil) != (layer != nil) || tools["echo"] == nil {
			t.Errorf("hidden: %v, and the session lists %d tools", layer != nil, len(tools))
		}
		if tools := two.answerTo(req("2", "tools/list")).tools(t); tools[far] == nil {
			t.Error("it is hidden from another session")
		}
	}
}

// A rule may hide a tool because of a name that the tool gets later, so clients are
// notified to list the tools again.
func TestNamesOfRemotesAreAnnounced(t *testing.T) {
	_, with := newOffice(t, "rules: [{id: r, match: {tool: mcp_far_send}, decision: deny}]\n")
	ty := newToy(t, with)
	c := ty.connect(t)
	c.greet(revLegacy)
	before := lost()
	before.Names = nil
	for _, r := range []mcp.Remote{before, lost()} {
		ty.set(t, "far", mcp.Remotes{Tools: []mcp.Remote{r}})
		if a := c.next(); a.Method != "notifications/tools/list_changed" {
			t.Errorf("got %s", a.raw)
		}
		if tools := c.answerTo(req("1", "tools/list")).tools(t); (tools[r.Name] != nil) != (r.Names == nil) {
			t.Errorf("with the names %q it is listed: %v", r.Names, tools[r.Name] != nil)
		}
	}
}
