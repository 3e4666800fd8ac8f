package mcp

import (
	"encoding/json"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// ownListing returns what lists a tool of this server: it is written once, without its output
// schema and with it.
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
				panic("mcp: list tool " + info.Name + ": " + err.Error()) // cannot be: all of it is ours
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

// noSchema is the placeholder that the sdk has for a schema; ownListing puts in the real one.
// It names its type twice, so that it cannot be written as JSON: neither to a client, by
// mistake, nor by the sdk, which copies the schema of each tool through JSON to look for
// parameters that are HTTP headers. No tool has any.
var noSchema = &jsonschema.Schema{Type: "object", Types: []string{"object"}}

// sdkTool is what the sdk knows of a tool; ownListing adds its schemas.
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
