package toolkit

import (
	"strings"
	"testing"
)

// A file that was made from a template is listed with its drift, unless the policy hides it
// from the agent.
func TestTemplateProvenance(t *testing.T) {
	made := preview("template://makefile/rust/cli")
	dir := sample().with("Makefile", made+"\nmore:\n\ttrue\n").with("b/Makefile", made).with("README.md", "# Mine\n").in(t)
	args := map[string]any{"include_analyses": []string{"complexity"}, "format": "json"}
	o := analyse(t, dir, "analyze_deep_context", args, nil)
	if o.err != nil {
		t.Fatal(o.err)
	}
	const want = `"template_provenance":[{"file":"Makefile","template":"template://makefile/rust/cli","kept_lines":`
	if got := string(o.answer.Result); !strings.Contains(got, want) || !strings.Contains(got, `"missing_lines":0,"added_lines":2}]`) {
		t.Errorf("got %.2000s, want %s", got, want)
	}
	o = analyse(t, dir, "analyze_deep_context", args, func(path string) bool { return path == Workspace+"/Makefile" })
	if o.err != nil || strings.Contains(string(o.answer.Result), "template://") || !strings.Contains(string(o.answer.Result), "no file has half of the lines of a template") {
		t.Errorf("denied: got %v, %.2000s, want no template", o.err, o.answer.Result)
	}
}
