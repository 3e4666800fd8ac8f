package policies_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
)

// Lint finds nothing in the bundled policies.
func TestLintBundled(t *testing.T) {
	for _, name := range policies.Bundled() {
		found, err := policies.Lint(name, []byte(policies.BundledText(name)), policies.Files{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			t.Errorf("%s:\n%s", name, f)
		}
	}
}

// Next to each file of testdata/lint is a file with what lint finds in it.
func TestLint(t *testing.T) {
	files, err := filepath.Glob("testdata/lint/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "layer-") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		read := func(name string) ([]byte, error) {
			return os.ReadFile(filepath.Join("testdata/lint", filepath.Base(name)))
		}
		found, err := policies.Lint(filepath.Base(file), text, policies.Files{Read: read}, nil)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		var b strings.Builder
		for _, f := range found {
			fmt.Fprintln(&b, f)
		}
		golden.Equal(t, filepath.Join("lint", strings.TrimSuffix(filepath.Base(file), ".yaml")+".golden"), b.String())
	}
}

// TestLintUse checks the findings about the use of rules that an audit log shows.
func TestLintUse(t *testing.T) {
	text := head + `rules:
  - {id: push, match: {tool: Bash, command: "git push **"}, decision: ask}
  - {id: tag, match: {tool: Bash, command: "git tag **"}, decision: ask}
  - {id: make, match: {tool: Bash, command: "make test"}, decision: allow}
  - {id: rarely, match: {tool: Bash, command: "make release"}, decision: ask}
tests:
  - {bash: git push, want: ask, rule: push}
  - {bash: git tag x, want: ask, rule: tag}
  - {bash: make test, want: allow, rule: make}
  - {bash: make release, want: ask, rule: rarely}
`
	use := &policies.Use{
		Calls: 1000, Spoke: map[string]int{"push": 10, "tag": 12, "rarely": 3},
		Asked: map[string]int{"push": 10, "tag": 10, "rarely": 3}, Kept: map[string]int{"push": 3, "tag": 2, "rarely": 3},
	}
	found, err := policies.Lint("use.yaml", []byte(text), policies.Files{}, use)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintln(&b, f)
	}
	golden.Equal(t, "lint/use.golden", b.String())
	use.Calls = 99
	if few, err := policies.Lint("use.yaml", []byte(text), policies.Files{}, use); err != nil || len(few) != 1 {
		t.Errorf("of a log of 99 calls: %v, %v", few, err)
	}
}

func TestSpeaks(t *testing.T) {
	p := parse(t, head+`rules:
  - {id: git, match: {tool: Bash, command: "git **"}, decision: allow}
  - {id: push, match: {tool: Bash, command: "git push **"}, decision: ask}
  - {id: trial, mode: audit, match: {tool: Bash}, decision: deny}
  - {id: never, match: {tool: Bash}, when: args.timeout > 5, decision: deny}
  - {id: docs, match: {tool: ReadDocs}, decision: allow}
`)
	if got := fmt.Sprint(p.Speaks(bash("git log && git push"))); got != "[git trial push]" {
		t.Errorf("got %s", got)
	}
	if got := p.Speaks(policies.Facts{Tool: "Bash", Profile: "none"}); got != nil {
		t.Errorf("of a profile that does not exist: %v", got)
	}
}

// A rule that lets calls through that no other rule lets through is not called redundant.
func TestLintKeepsQuiet(t *testing.T) {
	for name, rules := range map[string]string{
		"variables": `{id: a, match: {tool: Bash, command: "ls **"}, decision: allow}, {id: b, match: {tool: Bash, command: "ls -l"}, decision: allow},
  {id: c, match: {tool: Bash, command: "ls -a", env: [CI]}, decision: allow}`,
		"a limit":        `{id: a, match: {tool: Bash}, decision: allow}, {id: b, match: {tool: Bash, command: "make"}, decision: allow, limit: {calls: 1/s}}`,
		"another reason": `{id: a, match: {tool: Bash}, decision: deny, unsure: pass}, {id: b, match: {tool: Bash, command: "make"}, decision: deny, unsure: pass, reason: It writes.}`,
		"when":           `{id: a, match: {tool: Bash}, when: args.timeout > 5, decision: deny}, {id: b, match: {tool: Bash, command: "make"}, decision: ask}`,
		"unless":         `{id: a, match: {tool: Bash}, unless: {command: make}, decision: deny}, {id: b, match: {tool: Bash, command: "make"}, decision: ask}`,
		"other parts":    `{id: a, match: {tool: Bash, command: "**"}, decision: deny, unsure: pass}, {id: b, match: {tool: Bash}, decision: ask}`,
		"another tool":   `{id: a, match: {tool: Bash, command: "ls"}, decision: deny, unsure: pass}, {id: b, match: {tool: "*Bash", command: "ls"}, decision: ask}`,
		"a profile":      `{id: a, match: {tool: Bash, profile: net}, decision: deny}, {id: b, match: {tool: Bash, profile: [net, offline]}, decision: ask}`,
		"longer":         `{id: a, match: {tool: Bash, command: "ls *"}, decision: deny, unsure: pass}, {id: b, match: {tool: Bash, command: "ls * *"}, decision: ask}`,
		"any number":     `{id: a, match: {tool: Bash, command: "ls *"}, decision: deny, unsure: pass}, {id: b, match: {tool: Bash, command: "ls **"}, decision: ask}`,
		"a port":         `{id: a, match: {tool: ReadDocs, url: "https://a.example/**"}, decision: deny}, {id: b, match: {tool: ReadDocs, url: "https://a.example:8443/**"}, decision: ask}`,
	} {
		text := head + "rules: [" + rules + "]\n"
		found, err := policies.Lint("p.yaml", []byte(text), policies.Files{}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, f := range found {
			if (f.Check == "shadowed" || f.Check == "redundant") && (name != "variables" || f.Rule != "b") {
				t.Errorf("%s:\n%s", name, f)
			}
		}
	}
}
