package mcp_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"belljar.dev/mcp"
)

// The name of a method in a log contains only characters that a terminal shows in their
// order and does not obey.
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

// The log names the tool of a call, also if the tool is called as a method.
func TestServedTools(t *testing.T) {
	h := newHandled(t)
	addMethods(h.Server)
	for body, want := range map[string]string{
		`"method":"say","params":{"text":"hi"}`:         "say",
		`"method":"say"`:                                "say",
		`"method":"tools/call","params":{"name":"say"}`: "say",
		`"method":"tools/call","params":{"name":"x"}`:   mcp.OtherTool,
		`"method":"tools/call","params":{}`:             mcp.OtherTool,
		`"method":"echo","params":{"text":"hi"}`:        "",
		`"method":"tools/list"`:                         "",
	} {
		ctx, served := mcp.WithServed(t.Context())
		h.handler.ServeHTTP(httptest.NewRecorder(), request(ctx, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,`+body+`}`))
		if served.Tool != want {
			t.Errorf("%s is logged as a call of %q, want %q", body, served.Tool, want)
		}
	}
}

// An answer that continues after its handler has returned is over at its own end, with all
// its bytes counted.
func TestHijackedAnswer(t *testing.T) {
	ctx, served := mcp.WithServed(t.Context())
	over := mcp.Hijacked(ctx)
	ended := false
	served.WhenOver(func() { ended = true })
	if ended {
		t.Error("it is over although it goes on")
	}
	if over(7); !ended || served.HijackedBytes() != 7 {
		t.Errorf("over %t, with %d bytes", ended, served.HijackedBytes())
	}
	mcp.Hijacked(t.Context())(1) // this context has no Served to note it in
}
