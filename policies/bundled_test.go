package policies_test

import (
	"regexp"
	"strings"
	"testing"

	"belljar.dev/policies"
)

// Every bundled policy parses, so its tests pass, and says whom it is for.
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
		// OpenBundled reads nothing below the tests.
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

// Each bundled policy says something about each tool of this server: a tool that
// is added is let through or refused because somebody decided so.
func TestBundledPoliciesNameEveryTool(t *testing.T) {
	for _, name := range policies.Bundled() {
		for _, tool := range policies.KnownTools() {
			if !regexp.MustCompile(`(?m)^[^#\n]*\b` + tool + `\b`).MatchString(policies.BundledText(name)) {
				t.Errorf("%s names %s in no rule", name, tool)
			}
		}
	}
}
