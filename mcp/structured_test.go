package mcp_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	"belljar.dev/mcp"
)

// structured configures a server to give all clients structured results.
func structured(c *mcp.Config) { c.Structured = true }

// wishes are the ways in which a client asks for structured results or declines them, as
// members of _meta and as capabilities.
var wishes = []struct {
	name, meta, capabilities string
	server                   bool // the server gives structured results to all clients
	want                     bool
}{
	{name: "no wish"},
	{name: "by the server", server: true, want: true},
	{name: "by a capability", capabilities: `{"experimental":{"belljar.dev/structured":{}}}`, want: true},
	{name: "by another capability", capabilities: `{"experimental":{"structured":{}},"belljar.dev/structured":{}}`},
	{name: "by the request", meta: `"belljar.dev/structured":true`, want: true},
	{name: "by the request, spelt otherwise", meta: `"belljar.dev\/structured":true`, want: true},
	{name: "not for this request", meta: `"belljar.dev/structured":false`, server: true, capabilities: `{"experimental":{"belljar.dev/structured":{}}}`},
	{name: "a wish that is none", meta: `"belljar.dev/structured":"yes"`},
}

// A result has structured content, and a tool an output schema, only if the client asks for
// it: clients give their model the structured part in place of the text.
func TestStructuredIsForWhoAsks(t *testing.T) {
	requests := []struct{ method, tool, args, part, without string }{
		{"tools/call", "echo", `"arguments":{"text":"hi"}`, `"structuredContent":{"said":"hi"}`, `"text":"hi"`},
		// this call goes through the sdk
		{"tools/call", "echo", `"another":1,"arguments":{"text":"hi"}`, `"structuredContent":{"said":"hi"}`, `"text":"hi"`},
		{"tools/call", "echo", `"arguments":{"text":"forbidden"}`, `"structuredContent":{"refusal":{`, `"text":"DENIED`},
		{"tools/call", "mute", `"arguments":{}`, `"structuredContent":{"said":"it"}`, `said`},
		{"tools/list", "", `"cursor":""`, `"outputSchema":{`, `"inputSchema":{`},
	}
	for _, w := range wishes {
		site := newSite(t, func(c *mcp.Config) { c.Structured = w.server })
		mcp.AddTool(site.Server, mcp.Tool{Name: "mute", Description: "has no text", Output: echoOutput{}},
			func(context.Context, mcp.Call, noInput) (*mcp.Result, error) {
				return &mcp.Result{Structured: echoOutput{"it"}}, nil
			})
		capabilities := cmp.Or(w.capabilities, "{}")
		greeting := strings.Replace(fmt.Sprintf(hello, revLegacy), `"capabilities":{}`, `"capabilities":`+capabilities, 1)
		old, young := site.connect(t), site.connect(t)
		old.send(greeting)
		old.next()
		old.send(initialized)
		headers := []string{"Mcp-Session-Id", site.do("POST", greeting).header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", revLegacy}
		site.do("POST", initialized, headers...)

		for _, r := range requests {
			name := ""
			if r.tool != "" {
				name = fmt.Sprintf(`"name":%q,`, r.tool)
			}
			oldLine := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s,"_meta":{%s}}}`, r.method, name, r.args, w.meta)
			youngLine := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s,%s}}`, r.method, name, r.args, modernMeta(capabilities, w.meta))
			old.send(oldLine)
			young.send(youngLine)
			for way, raw := range map[string]string{
				"stdio, 2025-11-25": old.next().raw,
				"stdio, 2026-07-28": young.next().raw,
				"HTTP, 2025-11-25":  site.do("POST", oldLine, headers...).last().raw,
				"HTTP, 2026-07-28":  site.do("POST", youngLine, modernHeaders(r.method, r.tool)...).last().raw,
			} {
				got := strings.Contains(raw, "structuredContent") || strings.Contains(raw, "outputSchema")
				if got != w.want || w.want && !strings.Contains(raw, r.part) || !strings.Contains(raw, r.without) {
					t.Errorf("%s, %s, %s of %s: got %.600s\nwant %s in it, and (%t) %s", w.name, way, r.method, r.tool, raw, r.without, w.want, r.part)
				}
			}
		}
	}
}

// modernMeta returns the _meta of a modern request with capabilities and other members.
func modernMeta(capabilities, more string) string {
	meta := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + capabilities
	if more != "" {
		meta += "," + more
	}
	return `"_meta":{` + meta + `}`
}
