package policies_test

import (
	"regexp"
	"strings"
	"testing"

	"belljar.dev/policies"
)

// The schema with which editors check a policy has a pattern for names. The decoder does
// not use that pattern, whose bound is slow to compile, and must accept the same names.
func TestNamesAreThoseOfTheSchema(t *testing.T) {
	const pattern = `^[a-z0-9][a-z0-9._-]{0,63}$`
	if !strings.Contains(string(policies.Schema()), `"pattern": "`+pattern+`"`) {
		t.Fatalf("the schema has no pattern %s", pattern)
	}
	names := []string{"a", "0", "a.b", "a_b-c", ".a", "-a", "_a", "A", "aB", "a b", "é", "a\u00e9", "a/b", "a:b"}
	for _, n := range []int{63, 64, 65, 1000} {
		names = append(names, strings.Repeat("a", n), strings.Repeat("a", n-1)+"-", strings.Repeat("a", n-1)+"B")
	}
	for _, name := range names {
		_, err := policies.Parse("test.yaml", []byte("version: 1\nprofiles: {p: {}}\nrules: [{id: \""+name+"\", decision: deny}]\n"))
		refused := err != nil && strings.Contains(err.Error(), "cannot be the id of a rule")
		if want := regexp.MustCompile(pattern).MatchString(name); refused == want {
			t.Errorf("%.80q: the schema takes it: %v; the decoder: %v", name, want, err)
		}
	}
}

// A rule names a tool if it contains the tool's full name, whatever the rule decides. A
// pattern, a bundled policy and a rule without tools do not name a tool.
func TestNames(t *testing.T) {
	for rules, want := range map[string]bool{
		`[]`: false,
		`[{id: a, match: {tool: list_templates}, decision: allow}]`:                                                true,
		`[{id: a, match: {tool: [Bash, quality_gate]}, decision: deny}]`:                                           true,
		`[{id: a, match: {tool: Bash}, decision: allow}]`:                                                          false,
		`[{id: a, match: {tool: "*"}, decision: allow}]`:                                                           false,
		`[{id: a, match: {tool: "*_templates"}, decision: allow}]`:                                                 false,
		`[{id: a, match: {tool: "{list_templates,quality_gate}"}, decision: allow}]`:                               false,
		`[{id: a, match: {upstream: x}, decision: allow}]`:                                                         false,
		`[{id: a, match: {tool: "*"}, decision: deny}, {id: b, match: {tool: [list_templates]}, decision: allow}]`: true,
		`[{id: a, match: {tool: mcp_x_list_templates, upstream: x}, decision: allow}]`:                             false,
		`[{id: a, match: {tool: list_templates}, when: "size(args.category) > 0", decision: deny}]`:                true,
	} {
		p, err := policies.Parse("test.yaml", []byte("version: 1\ndefaults: {decision: deny, profile: p}\nprofiles: {p: {}}\nrules: "+rules+"\n"))
		if err != nil {
			t.Errorf("%s: %v", rules, err)
			continue
		}
		if got := policies.Names(p, "list_templates", "quality_gate"); got != want {
			t.Errorf("%s: got %t, want %t", rules, got, want)
		}
	}
	for _, name := range policies.Bundled() {
		p, err := policies.OpenBundled(name)
		if err != nil {
			t.Fatal(err)
		}
		if policies.Names(p, "generate_template", "list_templates", "validate_template", "scaffold_project", "search_templates") {
			t.Errorf("the bundled policy %s asks for the toolkit", name)
		}
	}
}
