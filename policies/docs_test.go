package policies_test

import (
	"os"
	"strings"
	"testing"

	"belljar.dev/policies"
)

// The example of docs/policy.md is a whole policy, and the refusal shown there
// is the one that it gives.
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
