package tools

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"belljar.dev/mcp"
)

// The input schemas use only features that all of these accept: OpenAI's function calling
// in strict mode (https://platform.openai.com/docs/guides/structured-outputs, "Supported
// schemas"), Gemini's function declarations (https://ai.google.dev/api/caching#Schema) and
// Claude's tools.
//
// Strict mode requires that every object is closed and that each of its members is
// required. SDKs convert other schemas to that form: ensure_strict_json_schema of
// openai-agents-python (src/agents/strict_schema.py) makes all members required and refuses
// an object with additionalProperties. toOpenAIStrictToolSchema of openai-agents-js
// (packages/agents-core/src/utils/strictToolSchema.ts) also makes an optional member "null
// or its type", for which the type must be known, and refuses allOf, oneOf, not, if,
// patternProperties and similar keywords. So members stay optional in our schemas, and null
// means that a member was left out.
func TestSchemasAreOfTheSubsetOfModels(t *testing.T) {
	server, err := mcp.New(mcp.Config{Gate: allowAll{}})
	if err != nil {
		t.Fatal(err)
	}
	Add(server, Backends{})
	for _, tool := range server.Tools() {
		var schema map[string]any
		if err := json.Unmarshal(tool.InputSchema, &schema); err != nil {
			t.Fatal(err)
		}
		if schema["type"] != "object" || schema["properties"] == nil {
			t.Errorf("%s: the schema is %v, want an object with properties", tool.Name, schema)
		}
		subset(t, tool.Name, schema, 1)
		if members := countMembers(schema); members > 100 {
			t.Errorf("%s: has %d members, and strict mode took 100 for long", tool.Name, members)
		}
	}
}

// The keywords and types that all models accept, and the form of members' names.
var (
	keywords = []string{"type", "description", "properties", "required", "items", "additionalProperties"}
	types    = []any{"object", "array", "string", "integer", "number", "boolean"}
	memberOf = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`)
)

// subset fails the test for a part of a schema that one of the models does not accept.
func subset(t *testing.T, at string, schema map[string]any, depth int) {
	t.Helper()
	for key := range schema {
		if !slices.Contains(keywords, key) {
			t.Errorf("%s: has the keyword %s", at, key)
		}
	}
	if !slices.Contains(types, schema["type"]) || depth > 5 {
		t.Errorf("%s: has the type %v at depth %d, want one of %v at most 5 deep", at, schema["type"], depth, types)
	}
	switch schema["type"] {
	case "array":
		items, ok := schema["items"].(map[string]any)
		if !ok {
			t.Errorf("%s: the items have no schema", at)
			return
		}
		subset(t, at+"[]", items, depth+1)
		return
	case "object":
		if schema["additionalProperties"] != false || schema["properties"] == nil {
			t.Errorf("%s: is an object that is not closed", at)
		}
	}
	members, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if text, ok := name.(string); !ok || members[text] == nil {
			t.Errorf("%s: requires %v, which it does not have", at, name)
		}
	}
	for name, one := range members {
		of, ok := one.(map[string]any)
		if !memberOf.MatchString(name) || !ok {
			t.Errorf("%s: the member %q has no such name or no schema", at, name)
			continue
		}
		subset(t, at+"."+name, of, depth+1)
	}
}

// countMembers counts the members of all objects of a schema.
func countMembers(schema map[string]any) int {
	n := 0
	members, _ := schema["properties"].(map[string]any)
	for _, one := range members {
		if of, ok := one.(map[string]any); ok {
			n += 1 + countMembers(of)
		}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		n += countMembers(items)
	}
	return n
}
