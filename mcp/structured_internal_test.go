package mcp

import (
	"encoding/json"
	"fmt"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// TestBothReadersDecideAlike: the reader of this package and the go-sdk give the same form
// of a result, whatever the request, the session and the option say.
func TestBothReadersDecideAlike(t *testing.T) {
	for _, all := range []bool{false, true} {
		for _, tt := range []struct {
			asked    string
			declared bool
			want     bool
		}{
			{"", false, all}, {"", true, true}, {"true", false, true}, {"false", true, false}, {"false", false, false}, {`"true"`, false, all}, {"null", true, true},
		} {
			meta := fmt.Sprintf(`{"progressToken":1,%q:{"experimental":{}}`, wire.CapabilitiesKey)
			if tt.declared {
				meta = fmt.Sprintf(`{"progressToken":1,%q:{"experimental":{%q:{}}}`, wire.CapabilitiesKey, structuredKey)
			}
			if tt.asked != "" {
				meta += fmt.Sprintf(`,%q:%s`, structuredKey, tt.asked)
			}
			meta += "}"
			var read sdk.Meta
			if err := json.Unmarshal([]byte(meta), &read); err != nil {
				t.Fatal(err)
			}
			slow := (&Config{Structured: all}).structures(nil, read)
			c := new(directCall)
			if !c.readMeta(&wire.Message{Meta: []byte(meta)}, all) || c.structured != tt.want || slow != tt.want {
				t.Errorf("%s, %v for all: got %v and %v, want %v", meta, all, c.structured, slow, tt.want)
			}
		}
	}
}
