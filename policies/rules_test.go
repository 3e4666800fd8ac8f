package policies

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// ruleCases contains, for each key of a rule, the other keys of the rule, two values of the
// key, and a call that the two values decide differently. An empty value means a rule
// without the key.
var ruleCases = map[string]struct {
	beside string
	values [2]string
	call   Facts
}{
	"id":          {"match: {tool: Bash}, decision: deny", [2]string{"r", "s"}, Facts{}},
	"match":       {"id: r, decision: deny", [2]string{"{tool: Bash}", "{tool: ReadImage}"}, Facts{}},
	"unless":      {"id: r, match: {tool: Bash}, decision: deny", [2]string{"", "{command: ls}"}, Facts{Command: "ls"}},
	"decision":    {"id: r, match: {tool: Bash}", [2]string{"deny", "ask"}, Facts{}},
	"unsure":      {"id: r, match: {command: 'rm **'}, decision: deny", [2]string{"", "pass"}, Facts{Command: "$X"}},
	"reason":      {"id: r, match: {tool: Bash}, decision: deny", [2]string{"", "It is mine."}, Facts{}},
	"instead":     {"id: r, match: {tool: Bash}, decision: deny", [2]string{"", "Wait."}, Facts{}},
	"profile":     {"id: r, match: {tool: Bash}, decision: allow", [2]string{"", "q"}, Facts{}},
	"when":        {"id: r, match: {tool: Bash}, decision: deny", [2]string{"", `'args.command == "pwd"'`}, Facts{}},
	"mode":        {"id: r, match: {tool: Bash}, decision: deny", [2]string{"", "audit"}, Facts{}},
	"limit":       {"id: r, match: {tool: Bash}, decision: allow", [2]string{"", "{calls: 1/s}"}, Facts{}},
	"obligations": {"id: r, match: {tool: Bash}, decision: allow", [2]string{"", "{redact: emails}"}, Facts{}},
	"remember":    {"id: r, match: {tool: Bash}, decision: ask", [2]string{"", "[once]"}, Facts{}},
	"audit":       {"id: r, match: {tool: Bash}, decision: allow", [2]string{"", "full"}, Facts{}},
}

// decided returns what a policy with only this rule decides about a call, and the profile that it
// would grant. The fields that differ between two policies are cleared.
func decided(t *testing.T, rule string, call Facts) (Decision, string) {
	t.Helper()
	p, err := Parse("policy.yaml", []byte(`version: 1
defaults: {decision: ask, profile: p}
profiles: {p: {browser: {walls: sandboxed, act: true}}, q: {browser: {walls: sandboxed, act: true}}}
rules: [{`+rule+`}]
`))
	if err != nil {
		t.Fatalf("%s: %v", rule, err)
	}
	if call.Tool == "" {
		call.Tool = "Bash"
	}
	call.Args = map[string]any{"command": call.Command}
	d := p.Decide(call)
	profile := d.offered().Profile()
	d.Grant, d.pending, d.Policy = Grant{}, nil, ""
	return d, profile
}

// For each key of a rule there is a call whose decision changes with the value of the key. Otherwise
// the key would be accepted and do nothing.
func TestEveryKeyOfARuleDecides(t *testing.T) {
	sameNames(t, "ruleCases in rules_test.go", slices.Collect(maps.Keys(ruleCases)), ruleShape.names())
	for key, c := range ruleCases {
		var all [2]Decision
		var profiles [2]string
		for i, value := range c.values {
			rule := c.beside
			if value != "" {
				rule += ", " + key + ": " + value
			}
			all[i], profiles[i] = decided(t, rule, c.call)
			if again, profile := decided(t, rule, c.call); profile != profiles[i] || !reflect.DeepEqual(again, all[i]) {
				t.Fatalf("{%s}: decides the same call in two ways: got %+v, then %+v", rule, all[i], again)
			}
		}
		if profiles[0] == profiles[1] && reflect.DeepEqual(all[0], all[1]) {
			t.Errorf("%s: the call of its case is decided the same by %q and by %q", key, c.values[0], c.values[1])
		}
	}
}

// A rule speaks about the calls that fit its match, and about no others. With an exception
// it speaks about the calls that do not fit the exception.
func TestEveryKeyOfAMatchDecides(t *testing.T) {
	for name, c := range matchCases {
		tool := "tool: " + cmp.Or(c.tool, "Bash")
		whole := tool
		if c.tool == ActTool {
			whole = "act: [press, type]" // an exception about acts needs a match about acts
		}
		match := strings.TrimSuffix(tool+", "+c.keys, ", ")
		for _, calls := range []struct {
			facts Facts
			fits  bool
		}{{c.fits, true}, {c.fails, false}} {
			rules := map[string]bool{fmt.Sprintf("id: r, match: {%s}, decision: deny", match): calls.fits}
			if name != "anyFlag" { // an allow cannot have anyFlag
				rules[fmt.Sprintf("id: r, match: {%s}, decision: allow", match)] = calls.fits
			}
			if name != "tools" { // an exception cannot have tools
				rules[fmt.Sprintf("id: r, match: {%s}, unless: {%s}, decision: deny", whole, c.keys)] = !calls.fits
			}
			for rule, want := range rules {
				if d, _ := decided(t, rule, calls.facts); (d.Rule == "r") != want {
					t.Errorf("%s: {%s} with %+v: decided by rule %q; by r: got %v, want %v", name, rule, calls.facts, d.Rule, d.Rule == "r", want)
				}
			}
		}
	}
}
