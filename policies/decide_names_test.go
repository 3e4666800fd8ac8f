package policies_test

import (
	"fmt"
	"strings"
	"testing"

	"belljar.dev/policies"
)

// renamed is a call of a tool that has lost the name mcp_x_send to another tool.
func renamed() policies.Facts {
	return policies.Facts{
		Tenant: policies.LocalTenant, Tool: "mcp_x_send_1a2b", ToolNames: []string{"mcp:x.send", "mcp_x_send", "send"}, Upstream: "x",
		Annotations: map[string]bool{"readOnlyHint": true},
	}
}

// A rule that refuses or asks applies to a tool under any of its names. A rule that allows
// applies only under the tool's own name, because an upstream chooses the other names. A
// rule that asks about another name does not turn a denial by default into a question.
func TestRulesAndNamesOfTools(t *testing.T) {
	const star = `{id: all, match: {tool: "*"}, decision: allow}`
	for _, tt := range []struct {
		fallback, rules string
		want            policies.Verdict
		rule            string
	}{
		{"allow", `{id: r, match: {tool: mcp_x_send}, decision: deny}`, deny, "r"},
		{"allow", `{id: r, match: {tool: "mcp:x.*"}, decision: deny}`, deny, "r"},
		{"allow", `{id: r, match: {tool: [other, "se{n,}d"]}, decision: ask}`, ask, "r"},
		{"allow", `{id: r, match: {tool: mcp_x_send_1a2b}, decision: deny}`, deny, "r"},
		{"allow", `{id: r, match: {tool: mcp_x_sen}, decision: deny}`, allow, "default"},
		{"allow", `{id: r, match: {tool: mcp_x_send, upstream: y}, decision: deny}`, allow, "default"},
		{"allow", `{id: r, match: {tool: mcp_x_send}, unless: {upstream: x}, decision: deny}`, allow, "default"},
		{"allow", `{id: r, match: {tool: mcp_x_send}, mode: warn, decision: deny}`, allow, "default"},
		{"deny", star + `, {id: r, match: {tool: mcp_x_send}, decision: deny}`, deny, "r"},
		{"deny", star + `, {id: r, match: {tool: mcp_x_send}, decision: ask}`, ask, "r"},
		{"deny", `{id: r, match: {tool: mcp_x_send}, decision: allow}`, deny, "default"},
		{"ask", `{id: r, match: {tool: mcp_x_send}, decision: allow}`, ask, "default"},
		{"deny", `{id: r, match: {tool: mcp_x_send_1a2b}, decision: allow}`, allow, "r"},
		{"deny", `{id: r, match: {tool: mcp_x_send}, decision: ask}`, deny, "default"},
		{"deny", `{id: r, match: {tool: mcp_x_send_1a2b}, decision: ask}`, ask, "r"},
		{"deny", `{id: r, match: {tool: send}, decision: ask}, {id: s, match: {tool: "mcp_*"}, decision: ask}`, ask, ""},
		{"ask", `{id: r, match: {tool: mcp_x_send}, decision: ask}`, ask, "r"},
	} {
		p := parse(t, strings.Replace(head, "decision: ask", "decision: "+tt.fallback, 1)+"rules: ["+tt.rules+"]\n")
		f := renamed()
		d := p.Decide(f)
		if d.Verdict != tt.want || tt.rule != "" && d.Rule != tt.rule {
			t.Errorf("%s, %s: got %v by %s, want %v by %s", tt.fallback, tt.rules, d.Verdict, d.Rule, tt.want, tt.rule)
		}
		if e, _ := p.Explain(f); e.Verdict != d.Verdict || e.Rule != d.Rule {
			t.Errorf("%s: explained as %v by %s", tt.rules, e.Verdict, e.Rule)
		}
		if spoke := strings.Join(p.Speaks(f), " "); strings.Contains(tt.rules, "mode: warn") && (spoke != "r" || len(d.Shadow) != 1) {
			t.Errorf("%s: %q speaks, and would have decided: %+v", tt.rules, spoke, d.Shadow)
		}
		if d.Verdict == deny != p.HiddenFrom(f) {
			t.Errorf("%s, %s: it is hidden: %v, and gets %v", tt.fallback, tt.rules, p.HiddenFrom(f), d.Verdict)
		}
		p = parse(t, strings.Replace(head, "decision: ask", "decision: allow", 1))
		l, err := policies.ParseLayer(policies.LayerSession, "layer.yaml", []byte("version: 1\nrules: ["+tt.rules+"]\n"), p)
		if err != nil {
			t.Fatal(err)
		}
		if after := p.With(l).Decide(f); tt.fallback == "allow" && after.Verdict != tt.want {
			t.Errorf("%s as a layer: got %v by %s", tt.rules, after.Verdict, after.Rule)
		}
	}
}

// A rule about a name that an upstream chose cannot make the log keep less of the tool's
// calls.
func TestNamesOfToolsAndTheLog(t *testing.T) {
	for tool, want := range map[string]policies.AuditLevel{"mcp_x_send_1a2b": policies.AuditMeta, "mcp_x_send": policies.AuditRequest} {
		p := parse(t, head+fmt.Sprintf("rules: [{id: r, match: {tool: %s}, decision: ask, audit: meta}]\n", tool))
		if d := p.Decide(renamed()); d.Verdict != ask || !d.Audit.Said || d.Audit.Level != want {
			t.Errorf("a rule about %s: got %+v", tool, d)
		}
	}
}

// A tool of an upstream is listed if some call of it can be let through: the upstream and
// the annotations of the tool count as well as its name. A tool of belljar itself is known
// to have no upstream.
func TestHiddenToolsOfUpstreams(t *testing.T) {
	reads := renamed()
	writes := renamed()
	writes.Annotations = nil
	other := renamed()
	other.Upstream = "y"
	own := policies.Facts{Tenant: policies.LocalTenant, Tool: "PlanMode"}
	for _, tt := range []struct{ fallback, rules, hidden string }{
		{"allow", `{id: r, match: {upstream: x}, decision: deny}`, "reads writes"},
		{"allow", `{id: r, match: {upstream: "{x,z}", tool: "mcp_*"}, decision: deny}`, "reads writes"},
		{"allow", `{id: r, match: {upstream: x}, mode: warn, decision: deny}`, ""},
		{"allow", `{id: r, match: {upstream: x}, when: "args.size() == 9", decision: deny}`, ""},
		{"allow", `{id: r, match: {upstream: x, path: "/etc/**"}, decision: deny}`, ""},
		{"allow", `{id: r, match: {upstream: x, profile: net}, decision: deny}`, ""},
		{"allow", `{id: r, match: {upstream: x}, unless: {host: "*"}, decision: deny}`, ""},
		{"allow", `{id: r, match: {upstream: x, annotations: {readOnlyHint: false}}, decision: deny}`, "writes"},
		{"allow", `{id: r, match: {annotations: {destructiveHint: true}}, unless: {upstream: x}, decision: deny}`, "other"},
		{"allow", `{id: r, match: {tool: "mcp_*"}, unless: {upstream: y}, decision: deny}`, "reads writes"},
		{"deny", `{id: r, match: {upstream: x}, decision: allow}`, "other own"},
		{"deny", `{id: r, match: {upstream: x, annotations: {readOnlyHint: true}}, decision: ask}`, "writes other own"},
		{"deny", `{id: r, match: {tool: "mcp_*"}, unless: {upstream: x}, decision: allow}`, "reads writes own"},
		{"deny", `{id: r, match: {tool: "mcp_*"}, unless: {upstream: x, host: "*"}, decision: allow}`, "own"},
		{"deny", `{id: r, match: {tool: "mcp_*", url: "https://a.example/**"}, decision: allow}`, "own"},
	} {
		p := parse(t, strings.Replace(head, "decision: ask", "decision: "+tt.fallback, 1)+"rules: ["+tt.rules+"]\n")
		for name, f := range map[string]policies.Facts{"reads": reads, "writes": writes, "other": other, "own": own} {
			want := strings.Contains(" "+tt.hidden+" ", " "+name+" ")
			if got := p.HiddenFrom(f); got != want {
				t.Errorf("%s, %s: %s is hidden: %v", tt.fallback, tt.rules, name, got)
			}
			if d := p.Decide(f); want && d.Verdict != deny {
				t.Errorf("%s, %s: %s is hidden, and gets %v", tt.fallback, tt.rules, name, d.Verdict)
			}
		}
	}
}
