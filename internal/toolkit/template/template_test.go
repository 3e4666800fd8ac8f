package template

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/testenv"
)

// combinations returns the parameters of a template with each choice of its booleans, once
// with its optional texts empty and once with all texts set.
func combinations(t Template) (every []map[string]any) {
	every = []map[string]any{{}, {}}
	for _, p := range t.Parameters {
		if p.Type == Boolean {
			for _, one := range slices.Clone(every) {
				other := maps.Clone(one)
				one[p.Name], other[p.Name] = false, true
				every = append(every, other)
			}
		}
	}
	for i, one := range every {
		for _, p := range t.Parameters {
			if p.Type == String && (p.Required || i%2 == 1) {
				one[p.Name] = valid(p)
			}
		}
	}
	return every
}

// valid returns a text that a parameter accepts.
func valid(p Parameter) string {
	switch p.Name {
	case "description":
		return "Reads logs: grüßt (and counts) lines/words, e.g. 3."
	case "license":
		return "MIT OR Apache-2.0"
	case "entry":
		return "src/main.ts"
	case "package":
		return "./cmd/my-tool"
	case "module":
		return "example.com/me/my-tool/v2"
	}
	if s, ok := p.Default.(string); ok && s != "" {
		return s
	}
	return "my-tool_2"
}

// For each choice of its parameters, every template makes a complete file.
func TestEveryTemplateComesOut(t *testing.T) {
	odd := regexp.MustCompile(`<no value>|<nil>|\{\{|\n\n\n|[ \t]\n|^\n|[^\n]\z|\n\n\z`)
	n := 0
	for _, one := range all() {
		for _, params := range combinations(one) {
			made, err := Generate(one.URI.String(), params)
			if err != nil {
				t.Errorf("%s with %v: %v", one.URI, params, err)
				continue
			}
			if at := odd.FindStringIndex(made.Content); at != nil {
				t.Errorf("%s with %v: %q in\n%s", one.URI, params, made.Content[at[0]:at[1]], made.Content)
			}
			for name, v := range params {
				left := name == "test" && params["has_tests"] == false
				if text, ok := v.(string); ok && !left && !strings.Contains(made.Content, text) {
					t.Errorf("%s with %v: %s %q is nowhere in\n%s", one.URI, params, name, text, made.Content)
				}
			}
			if len(made.Parameters) != len(one.Parameters) || made.Template.MIME == "" || made.Template.Path == "" {
				t.Errorf("%s: got the parameters %v", one.URI, made.Parameters)
			}
			n++
		}
		preview, err := Preview(one.URI.String())
		if err != nil || odd.MatchString(preview.Content) {
			t.Errorf("preview of %s: %v, %v", one.URI, preview, err)
		}
	}
	if n < 13*4 {
		t.Errorf("tried %d, want more", n)
	}
}

// Each boolean changes a file; otherwise the template should not have it.
func TestEveryParameterMatters(t *testing.T) {
	for _, one := range all() {
		for _, p := range one.Parameters {
			if p.Type != Boolean {
				continue
			}
			params := make(map[string]any)
			for _, q := range one.Parameters {
				if q.Required {
					params[q.Name] = valid(q)
				}
			}
			params[p.Name] = true
			with, err := Generate(one.URI.String(), params)
			if err != nil {
				t.Fatal(err)
			}
			params[p.Name] = false
			without, err := Generate(one.URI.String(), params)
			if err != nil {
				t.Fatal(err)
			}
			if with.Content == without.Content {
				t.Errorf("%s: %s changes nothing", one.URI, p.Name)
			}
		}
	}
}

// The catalog matches its schema, and contains every text of the program. The MIME types
// are those of the files that are made (C18).
func TestCatalog(t *testing.T) {
	var uris []string
	for _, one := range all() {
		uris = append(uris, one.URI.String())
		if u, err := ParseURI(one.URI.String()); err != nil || u != one.URI {
			t.Errorf("%s reads as %v, %v", one.URI, u, err)
		}
		if mime := map[string]string{"Makefile": "text/x-makefile", "README.md": "text/markdown", "AGENTS.md": "text/markdown", ".gitignore": "text/plain"}[one.Path]; mime == "" || one.MIME != mime {
			t.Errorf("%s makes %s of the type %s", one.URI, one.Path, one.MIME)
		}
		for _, p := range one.Parameters {
			if p.Name == "" || p.Description == "" || p.Type != String && p.Type != Boolean {
				t.Errorf("%s: %+v", one.URI, p)
			}
			if p.Required == (p.Default != nil) || p.Required == (p.Example == nil) {
				t.Errorf("%s: %s has both a default and an example, or neither", one.URI, p.Name)
			}
			if p.Type == String && (!strings.HasPrefix(p.Pattern, "^") || !strings.HasSuffix(p.Pattern, "$")) {
				t.Errorf("%s: the pattern of %s is open: %s", one.URI, p.Name, p.Pattern)
			}
			for _, v := range []any{p.Default, p.Example} {
				if v != nil && p.fault(v) != "" {
					t.Errorf("%s: %s does not take its own value %v: %s", one.URI, p.Name, v, p.fault(v))
				}
			}
		}
	}
	if len(uris) != 13 || !slices.IsSorted(uris) || len(slices.Compact(uris)) != 13 {
		t.Errorf("got %q", uris)
	}
	files, err := filepath.Glob("texts/*/*/*.tmpl")
	if err != nil || len(files) != 13 {
		t.Errorf("got %d texts, %v", len(files), err)
	}
	if d := cmp.Diff([]string{"agents", "gitignore", "makefile", "readme"}, Categories()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"any", "deno", "go", "python-uv", "rust"}, Toolchains()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"cli", "default"}, Variants()); d != "" {
		t.Error(d)
	}
}

func TestURIs(t *testing.T) {
	long := "template://makefile/rust/" + strings.Repeat("a", 10_000)
	for _, tt := range []struct {
		uri  string
		want error
	}{
		{"template://makefile/rust/cli", nil},
		{"template://agents/any/default", nil},
		{"template://makefile/rust/gui", ErrNotFound},
		{"template://makefile/cobol/cli", ErrNotFound},
		{"template://dockerfile/rust/cli", ErrNotFound},
		{"template://agents/rust/default", ErrNotFound},
		{"", ErrURI},
		{"makefile", ErrURI},
		{"template:", ErrURI},
		{"template://", ErrURI},
		{"template:///", ErrURI},
		{"template:////", ErrURI},
		{"template://makefile/rust", ErrURI},
		{"template://makefile/rust/", ErrURI},
		{"template://makefile//cli", ErrURI},
		{"template:///rust/cli", ErrURI},
		{"template://makefile/rust/cli/", ErrURI},
		{"template://../../etc/passwd", ErrURI},
		{"template://makefile/../readme", ErrURI},
		{"template://makefile/rust/..", ErrURI},
		{"template://makefile/rust/cli/../x", ErrURI},
		{"template://makefile/rust/%2e%2e", ErrURI},
		{"template://makefile/rust/cli%00", ErrURI},
		{"template://makefile/rust/cli\x00", ErrURI},
		{"template://makefile/rust/cli\n", ErrURI},
		{"template://makefile/rust/cli?x=y", ErrURI},
		{"template://makefile/rust/cli#x", ErrURI},
		{"template://user@makefile/rust/cli", ErrURI},
		{`template://makefile\rust\cli`, ErrURI},
		{"template://Makefile/rust/cli", ErrURI},
		{"TEMPLATE://makefile/rust/cli", ErrURI},
		{"template://makefile/rust/ｃｌｉ", ErrURI},
		{"template://makefile/rust/\u202ecli", ErrURI},
		{" template://makefile/rust/cli", ErrURI},
		{"file:///etc/passwd", ErrURI},
		{"template://makefile/rust/" + strings.Repeat("a", maxPart+1), ErrURI},
		{long, ErrURI},
	} {
		_, err := Find(tt.uri)
		if !errors.Is(err, tt.want) {
			t.Errorf("%.80q: got %v, want %v", tt.uri, err, tt.want)
		}
		if err != nil && (len(err.Error()) > 600 || strings.ContainsFunc(err.Error(), unprintable)) {
			t.Errorf("%.80q: the error is long or has control characters: %q", tt.uri, err)
		}
		_, invalid := Validate(tt.uri, map[string]any{"project_name": "x"})
		_, generated := Generate(tt.uri, map[string]any{"project_name": "x"})
		_, seen := Preview(tt.uri)
		for _, err := range []error{invalid, generated, seen} {
			if !errors.Is(err, tt.want) {
				t.Errorf("%.80q: got %v, want %v", tt.uri, err, tt.want)
			}
		}
	}
}

// unprintable reports whether a rune of a message could have an effect on a terminal.
func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// hostile are texts that have a special meaning for Make, a shell, HTML, Markdown, a
// terminal or a file system.
var hostile = []string{
	"$(x)", "$(shell touch canary)", "${HOME}", "$$x", "`x`", "a`x`", "x\ny", "x\n", "\nx", "x\r", "x\ty", "x;y", "x&&y", "x|y", "x>y", "x<y",
	"../x", "..", "a/../b", "%2e%2e", "%x", "x#y", "x y:\n\tz", "x\\", "'x'", `"x"`, "<script>", "<img src=x>", "[x](javascript:y)", "![x](y)", "*x*", "~x",
	"{{.project_name}}", "{{", "x}}", "\x00", "x\x00", "\x1b[31m", "\u202ex", "x\u200f", "x\u2066y", "\u00a0", "x\u0085y", "x\u2028y", "\ufeffx", "\xff", "é", "-x", "--help", ".", "x:y=z",
	strings.Repeat("a", 65), strings.Repeat("a", 1<<20),
}

// dangerous are the characters that no text of a parameter may contain.
const dangerous = "$`\\\n\r\t\x00\x1b<>|;{}[]*#\"%~^\u202e\u200f\u200e\u2066\u2028\u2029\u0085\u00a0\ufeff"

// inert fails the test if a value of a parameter changed more than its place in the text.
// The same file with an ordinary value must have the same lines, except for the value
// itself.
func inert(t testing.TB, one Template, p Parameter, value string) {
	t.Helper()
	params := make(map[string]any)
	for _, q := range one.Parameters {
		if q.Required {
			params[q.Name] = "PLACE"
		}
	}
	params[p.Name] = value
	faults, err := Validate(one.URI.String(), params)
	if err != nil {
		t.Fatal(err)
	}
	made, err := Generate(one.URI.String(), params)
	if invalid, ok := errors.AsType[*Invalid](err); ok {
		if len(faults) == 0 || !cmp.Equal(faults, invalid.Faults) || len(err.Error()) > 1000 || strings.ContainsFunc(err.Error(), unprintable) {
			t.Errorf("%s: %s %.80q: got %q and %v", one.URI, p.Name, value, err, faults)
		}
		return
	}
	if err != nil || len(faults) > 0 {
		t.Fatalf("%s: %s %.80q: got %v and %v", one.URI, p.Name, value, err, faults)
	}
	path := slices.Contains([]string{"project_name", "entry", "package", "module"}, p.Name)
	if strings.ContainsAny(value, dangerous) || len(value) > 1<<10 || path && strings.Contains(value, "..") {
		t.Errorf("%s: %s took %.80q", one.URI, p.Name, value)
	}
	if value == "" {
		return
	}
	params[p.Name] = valid(p)
	plain, err := Generate(one.URI.String(), params)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.ReplaceAll(made.Content, value, "@"), strings.ReplaceAll(plain.Content, valid(p), "@"); len(value) > 12 && got != want {
		t.Errorf("%s: %s %.80q changed more than its place:\n%s", one.URI, p.Name, value, cmp.Diff(want, got))
	}
	if strings.Count(made.Content, "\n") != strings.Count(plain.Content, "\n") {
		t.Errorf("%s: %s %.80q changed the lines:\n%s", one.URI, p.Name, value, made.Content)
	}
}

func TestHostileParameters(t *testing.T) {
	for _, one := range all() {
		for _, p := range one.Parameters {
			if p.Type == String {
				for _, value := range hostile {
					inert(t, one, p, value)
				}
			}
		}
	}
	// No text accepts one of the dangerous characters, at any position.
	for _, one := range all() {
		for _, p := range one.Parameters {
			if p.Type != String {
				continue
			}
			ordinary := []rune(valid(p))
			for _, c := range dangerous {
				for _, at := range []int{0, len(ordinary) / 2, len(ordinary)} {
					if value := string(ordinary[:at]) + string(c) + string(ordinary[at:]); p.fault(value) == "" {
						t.Errorf("%s: %s took %q", one.URI, p.Name, value)
					}
				}
			}
		}
	}
	// None of the hostile texts is a valid name.
	for _, value := range hostile {
		if faults, err := Validate("template://makefile/rust/cli", map[string]any{"project_name": value}); err != nil || len(faults) != 1 || faults[0].Parameter != "project_name" {
			t.Errorf("%.80q: got %v, %v", value, faults, err)
		}
	}
}

func FuzzParameters(f *testing.F) {
	for i, value := range hostile {
		f.Add(byte(i), byte(i), value[:min(len(value), 1<<10)])
	}
	for _, one := range all() {
		for _, p := range one.Parameters {
			f.Add(byte(0), byte(0), valid(p))
		}
	}
	f.Fuzz(func(t *testing.T, which, at byte, value string) {
		one := all()[int(which)%len(all())]
		if p := one.Parameters[int(at)%len(one.Parameters)]; p.Type == String {
			inert(t, one, p, value)
		}
	})
}

func FuzzURI(f *testing.F) {
	for _, one := range all() {
		f.Add(one.URI.String())
	}
	f.Add("template://../../etc/passwd")
	f.Add("template://makefile/rust/cli/../x")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ParseURI(text)
		if err == nil && (u.String() != text || strings.ContainsAny(text, ".%\\?#")) {
			t.Errorf("%q was read as %v", text, u)
		}
		if err != nil && !errors.Is(err, ErrURI) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func TestValidate(t *testing.T) {
	deep := any("x")
	for range 1000 {
		deep = map[string]any{"a": deep}
	}
	many := map[string]any{"project_name": "x"}
	for i := range 1000 {
		many[fmt.Sprintf("p%04d", i)] = true
	}
	const makefile = "template://makefile/rust/cli"
	name := "is not a parameter of this template; known: has_tests, project_name"
	for _, tt := range []struct {
		params map[string]any
		want   []Fault
	}{
		{map[string]any{"project_name": "x"}, nil},
		{map[string]any{"project_name": "x", "has_tests": true}, nil},
		{map[string]any{"project_name": "x", "has_tests": nil}, nil},
		{nil, []Fault{{"project_name", "is missing: name of the project and of its program"}}},
		{map[string]any{"project_name": nil}, []Fault{{"project_name", "is missing: name of the project and of its program"}}},
		{map[string]any{"project_name": ""}, []Fault{{"project_name", `is "", which does not match the pattern ^[A-Za-z][A-Za-z0-9_-]{0,63}$`}}},
		{map[string]any{"project_name": 7.0}, []Fault{{"project_name", "must be a string, not a number"}}},
		{map[string]any{"project_name": []any{"x"}}, []Fault{{"project_name", "must be a string, not an array"}}},
		{map[string]any{"project_name": deep}, []Fault{{"project_name", "must be a string, not an object"}}},
		{map[string]any{"project_name": "x", "has_tests": "true"}, []Fault{{"has_tests", "must be true or false, not a string"}}},
		{map[string]any{"project_name": "x", "has_test": true}, []Fault{{`"has_test"`, name}}},
		{map[string]any{"project_name": "x", "a\x1bb": true}, []Fault{{`"a\x1bb"`, name}}},
		{map[string]any{"project_name": strings.Repeat("a", 1<<20)}, []Fault{{"project_name", "has 1048576 bytes, and at most 1024 are allowed"}}},
	} {
		got, err := Validate(makefile, tt.params)
		if d := cmp.Diff(tt.want, got); d != "" || err != nil {
			t.Errorf("%.200v: %v\n%s", tt.params, err, d)
		}
	}
	if got, err := Validate(makefile, many); err != nil || len(got) != maxFaults {
		t.Errorf("got %d faults, %v", len(got), err)
	}
}

// A template is found by its name and by its URI (C17).
func TestScaffold(t *testing.T) {
	paths := func(files []*Generated) (all []string) {
		for _, f := range files {
			all = append(all, f.Template.Path)
		}
		return all
	}
	params := map[string]any{"project_name": "my-tool", "has_tests": true, "description": "Counts.", "editors": true}
	for _, tt := range []struct {
		toolchain string
		names     []string
		want      []string
	}{
		{"rust", []string{"makefile", "readme", "gitignore"}, []string{"Makefile", "README.md", ".gitignore"}},
		{"go", []string{"template://readme/go/cli", "gitignore", "agents"}, []string{"README.md", ".gitignore", "AGENTS.md"}},
		{"deno", []string{"template://agents/any/default", "readme", "gitignore"}, []string{"AGENTS.md", "README.md", ".gitignore"}},
	} {
		files, err := Scaffold(tt.toolchain, tt.names, params)
		if d := cmp.Diff(tt.want, paths(files)); d != "" || err != nil {
			t.Errorf("%s %q: %v\n%s", tt.toolchain, tt.names, err, d)
		}
		for _, f := range files {
			if _, ok := f.Parameters["editors"]; ok != (f.Template.URI.Category == "gitignore") || !strings.Contains(f.Content, "my-tool") {
				t.Errorf("%s: got the parameters %v and\n%s", f.Template.URI, f.Parameters, f.Content)
			}
		}
	}
	for _, tt := range []struct {
		what, toolchain string
		names           []string
		params          map[string]any
		want            string // part of the error
		is              error
	}{
		{"an unknown name", "rust", []string{"makefile", "dockerfile"}, params, `no such template: "dockerfile" for rust; known: agents, gitignore, makefile, readme`, ErrNotFound},
		{"an unknown URI", "rust", []string{"template://makefile/rust/gui"}, params, "no such template", ErrNotFound},
		{"a bad URI", "rust", []string{"template://../x"}, params, "not a template URI", ErrURI},
		{"a path", "rust", []string{"../makefile"}, params, "no such template", ErrNotFound},
		{"of another toolchain", "rust", []string{"template://makefile/go/cli"}, params, "templates: template://makefile/go/cli is not for the toolchain rust", nil},
		{"twice", "rust", []string{"makefile", "template://makefile/rust/cli"}, params, `templates: "makefile" and "template://makefile/rust/cli" both make Makefile`, nil},
		{"none", "rust", nil, params, "templates: has 0 entries, and must have 1 to 32", nil},
		{"many", "rust", make([]string, 10_000), params, "templates: has 10000 entries", nil},
		{"a bad toolchain", "cobol", []string{"makefile"}, params, `toolchain: "cobol" is not a toolchain; known: deno, go, python-uv, rust`, nil},
		{"any toolchain", "any", []string{"agents"}, params, `toolchain: "any" is not a toolchain`, nil},
		{"no parameters", "rust", []string{"makefile", "readme"}, nil, "invalid parameters: project_name: is missing: name of the project and of its program", nil},
		{"a parameter of none", "rust", []string{"makefile", "readme"}, params, `"editors": is not a parameter of this template; known: description, has_tests, license, project_name`, nil},
	} {
		files, err := Scaffold(tt.toolchain, tt.names, tt.params)
		if err == nil || files != nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, %v, want %s", tt.what, paths(files), err, tt.want)
		}
		if _, invalid := errors.AsType[*Invalid](err); invalid != (tt.is == nil) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %v is of another kind", tt.what, err)
		}
	}
}

func TestSearch(t *testing.T) {
	for _, tt := range []struct {
		query, toolchain string
		want             []string // names of the first templates
		n                int
	}{
		{"Rust CLI Makefile", "", []string{"10 template://makefile/rust/cli"}, 1},
		{"makefile", "", []string{"10 template://makefile/deno/cli"}, 4},
		{"MAKEFILE", "rust", []string{"10 template://makefile/rust/cli"}, 1},
		{"template://readme/go/cli", "", []string{"10 template://readme/go/cli"}, 1},
		{"rust", "", []string{"8 template://gitignore/rust/cli", "8 template://makefile/rust/cli", "8 template://readme/rust/cli"}, 3},
		{"rust makefile", "", []string{"16 template://makefile/rust/cli"}, 1},
		{"license", "", []string{"1 template://readme/deno/cli"}, 4},
		{"secrets", "", []string{"1 template://gitignore/deno/cli"}, 4},
		{"commands", "", []string{"3 template://agents/any/default"}, 1},
		{"rust dockerfile", "", nil, 0},
		{"makefile", "cobol", nil, 0},
	} {
		found, err := Search(tt.query, tt.toolchain)
		var got []string
		for _, f := range found[:min(len(found), len(tt.want))] {
			got = append(got, fmt.Sprintf("%d %s", f.Score, f.URI))
		}
		if d := cmp.Diff(tt.want, got); d != "" || err != nil || len(found) != tt.n {
			t.Errorf("%q: %d found, %v\n%s", tt.query, len(found), err, d)
		}
	}
	for _, bad := range []string{"", " \n", strings.Repeat("a", 1<<20), strings.Repeat("a ", 100)} {
		if _, err := Search(bad, ""); err == nil || len(err.Error()) > 200 {
			t.Errorf("%.40q: got %v", bad, err)
		}
	}
}

func TestList(t *testing.T) {
	for _, tt := range []struct {
		toolchain, category string
		want                int
	}{
		{"", "", 13}, {"rust", "", 4}, {"", "makefile", 4}, {"rust", "makefile", 1}, {"go", "agents", 1}, {"any", "", 1}, {"cobol", "", 0}, {"", "dockerfile", 0},
	} {
		if got := List(tt.toolchain, tt.category); len(got) != tt.want {
			t.Errorf("%q %q: got %d, want %d", tt.toolchain, tt.category, len(got), tt.want)
		}
	}
}

// project writes a small project of a toolchain.
func project(t *testing.T, toolchain string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]map[string]string{
		"go": {
			"go.mod":       "module example.com/my-tool\n\ngo 1.24\n",
			"main.go":      "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(two()) }\n\nfunc two() int { return 2 }\n",
			"main_test.go": "package main\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) {\n\tif two() != 2 {\n\t\tt.Fatal(two())\n\t}\n}\n",
		},
		"rust": {
			"Cargo.toml":  "[package]\nname = \"my-tool\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
			"Cargo.lock":  "version = 3\n\n[[package]]\nname = \"my-tool\"\nversion = \"0.1.0\"\n",
			"src/main.rs": "fn main() {\n    println!(\"{}\", two());\n}\n\nfn two() -> i32 {\n    2\n}\n\n#[test]\nfn is_two() {\n    assert_eq!(two(), 2);\n}\n",
		},
		"deno": {
			"deno.json": "{}\n",
			"main.ts":   "export function two(): number {\n  return 2;\n}\n\nif (import.meta.main) {\n  console.log(two());\n}\n",
		},
		"python-uv": {
			"pyproject.toml":          "[project]\nname = \"my-tool\"\nversion = \"0.1.0\"\nrequires-python = \">=3.10\"\n",
			"src/my_tool/__init__.py": "def main() -> None:\n    print(2)\n",
		},
	}[toolchain]
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// runMake runs make in a directory, without the environment variables of a make that runs
// this test.
func runMake(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "make", args...)
	c.Dir, c.Env = dir, append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=", "CARGO_NET_OFFLINE=true")
	out, err := c.CombinedOutput()
	return string(out), err
}

var phony = regexp.MustCompile(`(?m)^\.PHONY: (.*)$`)

// make accepts each Makefile, in a project of its toolchain: every target can be made and
// help lists it. If the toolchain is installed, the targets work.
func TestMakefiles(t *testing.T) {
	testenv.Need(t, testenv.Make)
	works := map[string][]string{
		"go": {"all", "run", "cover", "clean"}, "rust": {"build", "test", "run", "clean"}, "deno": {"all", "run"}, "python-uv": nil,
	}
	// A toolchain may be installed only in name: cargo is a proxy of rustup if no toolchain
	// was chosen.
	version := map[string][]string{"go": {"go", "version"}, "rust": {"cargo", "--version"}, "deno": {"deno", "--version"}, "python-uv": {"uv", "--version"}}
	for toolchain, targets := range works {
		for _, tests := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s tests=%t", toolchain, tests), func(t *testing.T) {
				dir := project(t, toolchain)
				made, err := Generate("template://makefile/"+toolchain+"/cli", map[string]any{"project_name": "my-tool", "has_tests": tests})
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte(made.Content), 0o644); err != nil {
					t.Fatal(err)
				}
				help, err := runMake(t, dir)
				if err != nil {
					t.Fatalf("make: %v\n%s", err, help)
				}
				var names []string
				for _, m := range phony.FindAllStringSubmatch(made.Content, -1) {
					names = append(names, strings.Fields(m[1])...)
				}
				if slices.Contains(names, "test") != tests || len(names) < 9 {
					t.Errorf("got the targets %q", names)
				}
				for _, name := range names {
					out, err := runMake(t, dir, "-n", "--warn-undefined-variables", name, "ARGS=")
					if err != nil || strings.Contains(out, "warning:") {
						t.Errorf("make -n %s: %v\n%s", name, err, out)
					}
					if !regexp.MustCompile(`(?m)^  ` + name + ` +[A-Z]`).MatchString(help) {
						t.Errorf("help does not have %s:\n%s", name, help)
					}
				}
				if out, err := exec.CommandContext(t.Context(), version[toolchain][0], version[toolchain][1]).CombinedOutput(); err != nil {
					t.Skipf("%q: %v: %s: its targets are not run", version[toolchain], err, out)
				}
				for _, target := range targets {
					if !slices.Contains(names, target) {
						continue
					}
					if out, err := runMake(t, dir, target); err != nil {
						t.Errorf("make %s: %v\n%s", target, err, out)
					}
				}
			})
		}
	}
}
