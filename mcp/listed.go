package mcp

import (
	"encoding/json"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// ownListing returns a function that returns the definition of a tool of this server. Each
// definition is written once: one without the output schema, and one with it.
func ownListing(info Tool, of func() schemas) func(structured bool, in wire.Era) json.RawMessage {
	write := func(structured bool) func() json.RawMessage {
		return sync.OnceValue(func() json.RawMessage {
			t, known := sdkTool(info), of()
			t.InputSchema = known.input
			if structured && known.output != nil {
				t.OutputSchema = known.output
			}
			raw, err := json.Marshal(t)
			if err != nil {
				// cannot happen: the definition is this program's own
				panic("mcp: list tool " + info.Name + ": " + err.Error())
			}
			return raw
		})
	}
	plain, full := write(false), write(true)
	return func(structured bool, _ wire.Era) json.RawMessage {
		if structured {
			return full()
		}
		return plain()
	}
}

// noSchema is the placeholder for a schema in the sdk; ownListing replaces it by the real
// schema. It has its type twice, so that it cannot be written as JSON, neither to a client
// by mistake, nor by the sdk. The sdk would copy the schema of each tool through JSON to
// look for parameters that are HTTP headers, and no tool has any.
var noSchema = &jsonschema.Schema{Type: "object", Types: []string{"object"}}

// sdkTool returns the description of a tool for the sdk; ownListing adds the schemas.
func sdkTool(info Tool) *sdk.Tool {
	destructive := info.Destructive && !info.ReadOnly
	t := &sdk.Tool{
		Name: info.Name, Title: info.Title, Description: info.Description,
		InputSchema: noSchema,
		Annotations: &sdk.ToolAnnotations{
			Title: info.Title, ReadOnlyHint: info.ReadOnly, IdempotentHint: info.Idempotent,
			DestructiveHint: &destructive, OpenWorldHint: &info.OpenWorld,
		},
	}
	if info.MaxResultChars > 0 {
		t.Meta = sdk.Meta{"anthropic/maxResultSizeChars": info.MaxResultChars}
	}
	return t
}
