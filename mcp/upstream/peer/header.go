package peer

import (
	"net/http"

	"belljar.dev/mcp/wire"
)

// mostMirrored is how many headers of a request may repeat parts of it.
const mostMirrored = 64

// mirrored returns the headers in which the modern era repeats parts of a request (MCP
// 2026-07-28, "Request Metadata"). It returns nil in the legacy era, but not for
// discoverMethod, which is sent before the era is known.
func (w *web) mirrored(cl *call, line []byte) http.Header {
	info := w.agreement()
	if cl.method != discoverMethod && (info == nil || info.Era != wire.Modern) {
		return nil
	}
	h := http.Header{wire.MethodHeader: {wire.EncodeHeader(cl.method)}}
	if cl.method == discoverMethod {
		h.Set(wire.RevisionHeader, wire.ModernRevision) // other requests get the agreed revision, see do
	}
	params := wire.Member(line, "params")
	switch cl.method {
	case "tools/call", "prompts/get":
		h.Set(wire.NameHeader, wire.EncodeHeader(wire.Text(wire.Member(params, "name"))))
	case "resources/read":
		h.Set(wire.NameHeader, wire.EncodeHeader(wire.Text(wire.Member(params, "uri"))))
	}
	if cl.method == "tools/call" && wire.IsObject(cl.tool) && wire.CheckJSON(cl.tool, deepestAnswer) == nil {
		wire.ReadRepeats(wire.Member(cl.tool, "inputSchema")).Each(wire.Member(params, "arguments"), func(header string, argument []byte) bool {
			if text, ok := wire.HeaderText(argument); ok {
				h.Set(header, wire.EncodeHeader(text))
			}
			return len(h) < mostMirrored
		})
	}
	return h
}
