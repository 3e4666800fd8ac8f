package mcp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// GW29: Tools that only a search finds are not in the list, and are called as usual. The
// search shows no tool that the policy hides from the caller, and its result is bounded.
func TestRemoteSearch(t *testing.T) {
	p, err := policies.Parse("policy.yaml", []byte(`version: 1
profiles: {p: {}}
rules:
  - {id: all, match: {tool: "*"}, decision: allow}
  - {id: no, match: {tool: mcp_far_secret}, decision: deny, instead: Nothing.}
`))
	if err != nil {
		t.Fatal(err)
	}
	s := newToy(t, func(c *mcp.Config) { c.Gate = silentPolicy{p} })
	r := mcp.Remotes{Search: "mcp_far_search_tools"}
	for name, about := range map[string]string{"read_file": "Reads a file", "write_file": "Writes a file", "navigate": "Opens a page", "secret": "Reads a file that nobody sees"} {
		one := farEcho("mcp_far_" + name)
		one.Definition = json.RawMessage(fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, about))
		r.Tools = append(r.Tools, one)
	}
	for i := range 30 {
		one := farEcho(fmt.Sprintf("mcp_far_many%02d", i))
		one.Definition = json.RawMessage(`{"name":"many","description":"` + strings.Repeat("x", 8<<10) + `","inputSchema":{"type":"object"}}`)
		r.Tools = append(r.Tools, one)
	}
	s.set(t, "far", r)
	c := s.connect(t)
	c.greet(revLegacy)
	list := string(c.answerTo(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{}}`).Result)
	if strings.Contains(list, "mcp_far_navigate") || !strings.Contains(list, "mcp_far_search_tools") {
		t.Errorf("the list is %s", list)
	}
	for query, want := range map[string]struct{ has, not string }{
		"file":      {`{"name":"mcp_far_read_file","description":"Reads a file"`, "navigate"},
		"FILE page": {"mcp_far_navigate", "many"},
		"nothing":   {"0 of the 33 tools", "name"},
		"many":      {"Also: mcp_far_many", "mcp_far_read_file"},
		"":          {"33 of the 33 tools", "secret"},
	} {
		args, err := json.Marshal(map[string]string{"query": query})
		if err != nil {
			t.Fatal(err)
		}
		a := c.answerTo(call("1", "mcp_far_search_tools", string(args)))
		text := a.text()
		if !strings.Contains(text, want.has) || strings.Contains(text, want.not) || strings.Contains(text, "mcp_far_secret") || len(text) > 80<<10 {
			t.Errorf("a search for %q: got %.500s (%d bytes)", query, text, len(text))
		}
	}
	for _, args := range []string{`{}`, `{"query":1}`, `{"query":"a","more":1}`} {
		if a := c.answerTo(call("1", "mcp_far_search_tools", args)); !strings.Contains(a.raw, "one member, query") {
			t.Errorf("%s: got %s", args, a.raw)
		}
	}
	if a := c.answerTo(call("1", "mcp_far_navigate", `{"text":"it runs"}`)); a.text() != "it runs" {
		t.Errorf("a tool that no list shows: got %s", a.raw)
	}
}

// silentPolicy is a policy that hides the tools that it never allows.
type silentPolicy struct{ *policies.Policy }

func (h silentPolicy) Hidden(f policies.Facts) bool { return h.HiddenFrom(f) }
