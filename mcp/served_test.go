package mcp_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"belljar.dev/mcp"
)

// What a log gets of a method has only characters that mean nothing to a terminal, and
// stand where they are written.
func TestServedMethods(t *testing.T) {
	h := newHandled(t)
	for method, want := range map[string]string{
		"tools/list": "tools/list", "$/x-y.z_1": "$/x-y.z_1",
		"x\u009b2J": mcp.OtherMethod, "x\u202ey": mcp.OtherMethod, `x\ny`: mcp.OtherMethod, `x\u001b[2J`: mcp.OtherMethod, "x y": mcp.OtherMethod,
		strings.Repeat("x", 65): mcp.OtherMethod, strings.Repeat("x", 64): strings.Repeat("x", 64),
	} {
		ctx, served := mcp.WithServed(t.Context())
		r := request(ctx, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`, method, `"}`)
		h.handler.ServeHTTP(httptest.NewRecorder(), r)
		if served.Method != want {
			t.Errorf("%q is logged as %q, want %q", method, served.Method, want)
		}
	}
}
