//go:build quality

package report

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"belljar.dev/internal/testenv"
)

// sarifPackage is a package of npm with the published schema of SARIF 2.1.0. Its own license
// is MIT; that of the schema is OASIS's, so it is fetched and not kept here.
const sarifPackage, sarifSchema = "@microsoft/jest-sarif@1.0.0-beta.0", "lib/schemas/sarif-2.1.0-rtm.5.json"

// SARIF files are valid by the published schema, whatever the names in them.
func TestSARIFIsValid(t *testing.T) {
	testenv.Need(t, testenv.Npm)
	dir := t.TempDir()
	c := exec.CommandContext(t.Context(), "npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-save", sarifPackage)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules/@microsoft/jest-sarif", sarifSchema))
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	schema.Schema, schema.ID = "", "" // draft 4, of which the schema uses nothing that a later draft reads otherwise
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
