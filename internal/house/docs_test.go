package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies"
)

// link matches [text](target) of markdown, and also images.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// prose returns a text without its fenced code, and with each inline code replaced by the
// word code.
func prose(text string) string {
	text = regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(text, "")
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, "code")
}

// anchors returns the anchors that GitHub makes for the headings of a document.
func anchors(text string) []string {
	var all []string
	text = regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(text, "")
	for line := range strings.Lines(text) {
		heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !ok || !strings.HasPrefix(line, "#") {
			continue
		}
		heading = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
		all = append(all, strings.ReplaceAll(heading, " ", "-"))
	}
	return all
}

func TestLinksResolve(t *testing.T) {
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		text := read(t, name)
		for _, m := range link.FindAllStringSubmatch(prose(text), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue // a request would make the test depend on the network
			}
			to := name
			if target != "" {
				to = filepath.Join(filepath.Dir(name), target)
			}
			if strings.HasPrefix(to, "..") {
				t.Errorf("%s: the link %s leaves the tree", name, m[1])
				continue
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", name, m[1])
				continue
			}
			if anchor != "" && strings.HasSuffix(to, ".md") && !slices.Contains(anchors(read(t, to)), anchor) {
				t.Errorf("%s: %s has no heading #%s", name, to, anchor)
			}
		}
	}
}

// A link whose text is a path leads to this path, or to a file in this directory. A tool
// that renames words in all files turns ordinary links into wrong ones, for example "a
// [hook](hooks.md)".
func TestLinksLeadWhereTheirWordsSay(t *testing.T) {
	labelled := regexp.MustCompile(`\[((?:cmd|mcp|sandbox|policies|browser|search|internal|docs|scripts)/[^\]\s]*)\]\(([^)#\s]+)`)
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, m := range labelled.FindAllStringSubmatch(prose(read(t, name)), -1) {
			to, says := filepath.Join(filepath.Dir(name), m[2]), filepath.Clean(m[1])
			if to != says && filepath.Dir(to) != says {
				t.Errorf("%s: the link says %s and leads to %s", name, m[1], to)
			}
		}
	}
}

// elsewhere contains the paths in documents that are not in this tree, and the places where
// they are.
var elsewhere = map[string]string{
	"search/engines.json": "in the state directory",
	"scripts/check.sh":    "in an example of a skill",
}

// A file, a directory or a test that a document names exists. Decisions and the changelog
// also name files and tests that are gone. NAME stands for any name.
func TestWhatDocumentsNameExists(t *testing.T) {
	tests := make(map[string]bool)
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	for _, name := range files(t) {
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range declared.FindAllStringSubmatch(read(t, name), -1) {
				tests[m[1]] = true
			}
		}
	}
	path := regexp.MustCompile("`((?:cmd|mcp|sandbox|policies|browser|search|internal|docs|scripts)/[\\w./-]+)`")
	test := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`)
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".md") || strings.Contains(name, "/decisions/") || strings.Contains(name, "testdata/") || name == "docs/changelog.md" {
			continue
		}
		text := read(t, name)
		for _, m := range path.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil && elsewhere[m[1]] == "" && !strings.Contains(m[1], "NAME") {
				t.Errorf("%s names %s, which does not exist", name, m[1])
			}
		}
		for _, m := range test.FindAllString(text, -1) {
			if !tests[m] {
				t.Errorf("%s names the test %s, which does not exist", name, m)
			}
		}
	}
}

func TestEveryDecisionHasItsDate(t *testing.T) {
	shape := regexp.MustCompile(`^\d{4}-\d{2}-\d{2}-[a-z0-9-]+\.md$`)
	entries, err := os.ReadDir(filepath.Join(root, "docs", "decisions"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !shape.MatchString(e.Name()) {
			t.Errorf("docs/decisions/%s: want YYYY-MM-DD-slug.md", e.Name())
		}
	}
}

// README.md has a row for each tool, with the tool's own text. The toolkit has its own
// page.
func TestReadmeHasTheTools(t *testing.T) {
	server, err := mcp.New(mcp.Config{Gate: new(policies.Policy)})
	if err != nil {
		t.Fatal(err)
	}
	tools.Add(server, tools.Backends{Browsers: &tools.Browsers{Acts: policies.ActKinds()}})
	text := "| tool | what it does |\n|---|---|\n"
	for _, tool := range server.Tools() {
		if tool.Brief == "" {
			t.Errorf("%s has no Brief, which README.md shows", tool.Name)
		}
		text += fmt.Sprintf("| `%s` | %s |\n", tool.Name, tool.Brief)
	}
	golden.Section(t, filepath.Join(root, "README.md"), "tools", text)
}
