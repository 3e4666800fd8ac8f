package policies_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
)

// Every bundled policy parses, its tests pass, and its first line says whom it is for.
func TestBundled(t *testing.T) {
	names := policies.Bundled()
	if got := strings.Join(names, " "); got != "ci default readonly research workstation" {
		t.Fatalf("got the policies %s", got)
	}
	for _, name := range names {
		p, err := policies.OpenBundled(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(p.Tests()); n < 9 {
			t.Errorf("%s carries only %d tests", name, n)
		}
		text := policies.BundledText(name)
		whole, err := policies.Parse(name+".yaml", []byte(text))
		if err != nil || whole.Hash() != p.Hash() {
			t.Errorf("%s: it has another hash with its tests: %v", name, err)
		}
		// OpenBundled does not read what is below the line tests:.
		_, tests, _ := strings.Cut(text, "\ntests:\n")
		for line := range strings.Lines(tests) {
			if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "#") && line != "\n" {
				t.Errorf("%s: below its tests stands %q", name, line)
			}
		}
		if use := policies.BundledUse(name); !strings.HasPrefix(use, "For ") || len(use) > 100 {
			t.Errorf("%s: its first line is %q", name, use)
		}
		if p.Name() != name+".yaml" {
			t.Errorf("%s is called %s", name, p.Name())
		}
	}
	if p, err := policies.OpenBundled("../default"); err == nil || p != nil {
		t.Errorf("a path opens %v", p)
	}
}

// docs/policy.md shows which rules of each bundled policy name each tool, so that the
// effect on a new tool is seen.
func TestRulesOfBundledPoliciesAreDocumented(t *testing.T) {
	order := []string{"default", "research", "readonly", "ci", "workstation"}
	rows := make(map[string][]string) // by the name of the tool
	for _, name := range order {
		var p struct {
			Defaults struct{ Decision string }
			Rules    []struct {
				ID    string
				Match struct{ Tool yaml.Node }
			}
		}
		if err := yaml.Unmarshal([]byte(policies.BundledText(name)), &p); err != nil {
			t.Fatal(err)
		}
		for _, tool := range policies.KnownTools() {
			word := regexp.MustCompile(`\b` + tool + `\b`) // also finds the tool in {BRACES}
			var named []string
			for _, r := range p.Rules {
				all := r.Match.Tool.Content
				if r.Match.Tool.Kind == yaml.ScalarNode {
					all = []*yaml.Node{&r.Match.Tool}
				}
				if slices.ContainsFunc(all, func(n *yaml.Node) bool { return word.MatchString(n.Value) }) {
					named = append(named, "`"+r.ID+"`")
				}
			}
			if named == nil && name == policies.DefaultName {
				t.Errorf("no rule of default.yaml names %s: allow it or deny it", tool)
			}
			if named == nil {
				named = []string{"no rule: " + p.Defaults.Decision}
			}
			rows[tool] = append(rows[tool], strings.Join(named, ", "))
		}
	}
	text := "| tool | `" + strings.Join(order, "` | `") + "` |\n|" + strings.Repeat("---|", len(order)+1) + "\n"
	for _, tool := range policies.KnownTools() {
		alike := slices.DeleteFunc(policies.KnownTools(), func(other string) bool { return !slices.Equal(rows[tool], rows[other]) })
		if alike[0] == tool {
			text += "| `" + strings.Join(alike, "`, `") + "` | " + strings.Join(rows[tool], " | ") + " |\n"
		}
	}
	golden.Section(t, "../docs/policy.md", "rules of the bundled policies", text)
}
