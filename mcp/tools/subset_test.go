package tools

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"belljar.dev/mcp"
)

// open are the arguments that are maps. OpenAI's strict mode takes no object whose
// members are not listed, so SDKs leave that mode for these tools.
var open = []string{"Bash.env", "BackgroundBash.env", "ReadDocs.headers"}

// The input schemas hold no more than all of these take: OpenAI's function calling in
// strict mode (https://platform.openai.com/docs/guides/structured-outputs, "Supported
// schemas", where optional members become nullable), Gemini's function declarations
// (https://ai.google.dev/api/caching#Schema) and Claude's tools.
func TestSchemasAreOfTheSubsetOfModels(t *testing.T) {
	server, err := mcp.New(mcp.Config{Gate: allowAll{}})
	if err != nil {
		t.Fatal(err)
	}
	Add(server, Backends{})
	var maps []string
	for _, tool := range server.Tools() {
		var schema map[string]any
		if err := json.Unmarshal(tool.InputSchema, &schema); err != nil {
			t.Fatal(err)
		}
		if schema["type"] != "object" || schema["properties"] == nil {
			t.Errorf("%s: the schema is %v, want an object with properties", tool.Name, schema)
		}
		maps = append(maps, subset(t, tool.Name, schema, 1)...)
	}
	slices.Sort(maps)
	if want := slices.Sorted(slices.Values(open)); !slices.Equal(maps, want) {
		t.Errorf("the arguments that are maps: got %v, want %v", maps, want)
	}
}

// The keywords and the types that all know, and the names of members.
var (
	keywords = []string{"type", "description", "properties", "required", "items", "additionalProperties"}
	types    = []any{"object", "array", "string", "integer", "number", "boolean"}
	memberOf = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`)
)

// subset fails the test for what one of the models does not know, and is the names of
// the maps.
func subset(t *testing.T, at string, schema map[string]any, depth int) (maps []string) {
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
			return nil
		}
		return subset(t, at+"[]", items, depth+1)
	case "object":
		if schema["additionalProperties"] != false {
			return []string{at}
		}
	}
	members, _ := schema["properties"].(map[string]any)
	for name, one := range members {
		of, ok := one.(map[string]any)
		if !memberOf.MatchString(name) || !ok {
			t.Errorf("%s: the member %q has no such name or no schema", at, name)
			continue
		}
		maps = append(maps, subset(t, at+"."+name, of, depth+1)...)
	}
	return maps
}
