//go:build quality

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"belljar.dev/internal/testenv"
)

// sarifPackage is an npm package with the published schema of SARIF 2.1.0. The package has
// the MIT license, but the schema has that of OASIS, so it is downloaded and not stored in
// this repository.
const sarifPackage, sarifSchema = "@microsoft/jest-sarif@1.0.0-beta.0", "lib/schemas/sarif-2.1.0-rtm.5.json"

// SARIF files are valid by the published schema, whatever names they contain.
func TestSARIFIsValid(t *testing.T) {
	testenv.Need(t, testenv.Npm)
	dir := install(t, sarifPackage)
	text, err := os.ReadFile(filepath.Join(dir, "node_modules/@microsoft/jest-sarif", sarifSchema))
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	schema.Schema, schema.ID = "", "" // the schema is draft 4, and uses nothing that a later draft reads in another way
	valid, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var findings []Finding
	for i, name := range hostile {
		findings = append(findings, Finding{Rule: "r", Path: fmt.Sprintf("%q", name), Line: i, EndLine: 2 * i, Message: name, Properties: map[string]any{"name": name, "n": i}})
	}
	for what, make := range map[string]func() ([]byte, error){
		"nothing": func() ([]byte, error) { return SARIF(Tool{Name: "t"}, nil, nil, nil) },
		"example": func() ([]byte, error) {
			return SARIF(example.tool, example.rules, example.findings, example.gaps)
		},
		"hostile": func() ([]byte, error) {
			return SARIF(Tool{Name: "t"}, []Rule{{"r", "n", "d", "h", Error}}, findings, hostile)
		},
	} {
		out, err := make()
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(out, &v); err != nil {
			t.Fatal(err)
		}
		if err := valid.Validate(v); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		run := v.(map[string]any)["runs"].([]any)[0].(map[string]any)
		run["results"] = []any{map[string]any{"level": "bad"}}
		if valid.Validate(v) == nil {
			t.Error("the schema lets everything through")
		}
	}
}

// A program that reads JUnit files finds all suites, cases and faults of the report.
func TestJUnitIsRead(t *testing.T) {
	testenv.Need(t, testenv.Npm, testenv.Node)
	c := exec.CommandContext(t.Context(), "node", "-e", `
require("junit2json").parse(require("fs").readFileSync(0, "utf8")).then((all) => console.log(JSON.stringify(
	all.testsuite.flatMap((s) => (s.testcase || []).map((c) => [s.name, c.name, c.failure ? "failure" : c.error ? "error" : c.skipped ? "skipped" : ""].join("/"))))))`)
	c.Dir = install(t, "junit2json@4.0.0")
	c.Stdin = bytes.NewReader(JUnit("gate", suites))
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	for _, s := range suites {
		for _, c := range s.Cases {
			want = append(want, s.Name+"/"+c.Name+"/"+map[Outcome]string{Failed: "failure", Broken: "error", Skipped: "skipped"}[c.Outcome])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the reader has %q, want %q", got, want)
	}
}

// install returns a directory with an npm package.
func install(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	c := exec.CommandContext(t.Context(), "npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-save", name)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	return dir
}
