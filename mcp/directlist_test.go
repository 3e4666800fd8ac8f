package mcp

import (
	"testing"

	"belljar.dev/mcp/wire"
)

// TestListCursor checks that a request that the go-sdk must read is refused here, and that
// the request that clients send most often is accepted.
func TestListCursor(t *testing.T) {
	const modern = `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`
	for params, want := range map[string]struct {
		cursor string
		ok     bool
	}{
		``: {"", true}, `{}`: {"", true}, `{"cursor":""}`: {"", true}, `{"cursor":"a\u0062"}`: {"ab", true},
		`{"cursor":7}`: {}, `{"cursor":null}`: {}, `{"another":1}`: {}, `{"cursor":"a","another":1}`: {}, modern: {},
	} {
		line := `{"jsonrpc":"2.0","id":1,"method":"tools/list"`
		if params != "" {
			line += `,"params":` + params
		}
		m, bad := wire.ParseMessage([]byte(line + "}"))
		if bad != nil {
			t.Fatalf("%s: %v", params, bad)
		}
		if cursor, ok := listCursor(m); ok != want.ok || ok && cursor != want.cursor {
			t.Errorf("%s: got %q, %v, want %q, %v", params, cursor, ok, want.cursor, want.ok)
		}
	}
}
