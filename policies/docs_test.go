package policies_test

import (
	"os"
	"strings"
	"testing"

	"belljar.dev/policies"
)

// The example of docs/policy.md is a whole policy, and the refusal in the text is the one
// that the policy gives.
func TestDocumentedExample(t *testing.T) {
	doc, err := os.ReadFile("../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(doc), "```yaml\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatal("docs/policy.md has no example")
	}
	p, err := policies.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Decide(bash("git log && git push -f")).Refusal("c-81f2"); !strings.Contains(string(doc), "```\n"+got+"\n```") {
		t.Errorf("docs/policy.md shows another refusal than\n%s", got)
	}
}

// Every example parses as a whole policy or as a part of a policy.
func TestDocumentedPolicies(t *testing.T) {
	var all []string
	for _, name := range []string{"policy.md", "gateway.md"} {
		doc, err := os.ReadFile("../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Split(string(doc), "```yaml\n")[1:]...)
	}
	whole := 0
	for _, text := range all {
		text, _, _ = strings.Cut(text, "```")
		if !strings.HasPrefix(strings.TrimSpace(text), "version:") {
			text = head + text
		}
		_, err := policies.Parse("policy.yaml", []byte(text))
		if strings.Contains(text, "\nnarrow:") {
			_, err = policies.ParseLayer(policies.LayerTenant, "team.yaml", []byte(text), policies.Default())
		}
		if err != nil {
			t.Error(err)
		}
		whole++
	}
	if whole < 4 {
		t.Errorf("the pages have %d examples", whole)
	}
}

// The example of a network parses, and lets out the connections that the text names.
func TestDocumentedNetwork(t *testing.T) {
	doc, err := os.ReadFile("../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(doc), "### net\n")
	_, text, _ = strings.Cut(text, "```yaml\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatal("docs/policy.md has no example of a network")
	}
	p := parse(t, text)
	e := p.Decide(policies.Facts{Tenant: "t", Tool: "Bash", Profile: "dev"}).Grant.Egress()
	for name, want := range map[string]bool{"registry.example": true, "a.pypi.example": true, "pypi.example": false, "uploads.pypi.example": false, "api.github.com": true} {
		if v := e.Connect(host(t, name), 443); v.Allowed != want {
			t.Errorf("%s: got %+v, want %v", name, v, want)
		}
	}
	if p.Decide(bash("ls")).Grant.Network() != policies.NetworkNone {
		t.Error("the default profile has a network")
	}
}
