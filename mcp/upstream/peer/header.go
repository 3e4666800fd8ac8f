package peer

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"belljar.dev/mcp/wire"
)

const (
	paramHeader = "Mcp-Param-"

	mostMirrored  = 64      // arguments that are headers too
	mostHeader    = 8 << 10 // bytes of one of their values
	deepestHeader = 16      // nesting of the properties among which they are looked for
	safeInteger   = 1<<53 - 1
)

// mirrored are the headers in which the modern era repeats parts of a request
// (MCP 2026-07-28, "Request Metadata"); nil in the legacy era.
func (w *web) mirrored(cl *call, line []byte) http.Header {
	info := w.agreement()
	if cl.method != discoverMethod && (info == nil || info.Era != wire.Modern) {
		return nil
	}
	h := http.Header{wire.MethodHeader: {headerValue(cl.method)}}
	if cl.method == discoverMethod {
		h.Set(wire.RevisionHeader, wire.ModernRevision)
	}
	params := wire.Member(line, "params")
	switch cl.method {
	case "tools/call", "prompts/get":
		h.Set(wire.NameHeader, headerValue(wire.Text(wire.Member(params, "name"))))
	case "resources/read":
		h.Set(wire.NameHeader, headerValue(wire.Text(wire.Member(params, "uri"))))
	}
	if cl.method == "tools/call" && wire.IsObject(cl.tool) && wire.CheckJSON(cl.tool, deepestAnswer) == nil {
		mirrorArguments(h, wire.Member(cl.tool, "inputSchema"), wire.Member(params, "arguments"), deepestHeader)
	}
	return h
}

// mirrorArguments adds a header for each argument whose schema names one by x-mcp-header.
func mirrorArguments(h http.Header, schema, arguments []byte, depth int) {
	properties := wire.Member(schema, "properties")
	if depth == 0 || !wire.IsObject(properties) || !wire.IsObject(arguments) {
		return
	}
	wire.Members(properties, func(name, property []byte) bool {
		argument := wire.Member(arguments, string(name))
		if len(argument) == 0 || !wire.IsObject(property) {
			return len(h) < mostMirrored
		}
		header := wire.Text(wire.Member(property, "x-mcp-header"))
		if value, ok := primitive(argument); ok && isToken(header) && len(value) <= mostHeader {
			h.Set(paramHeader+header, headerValue(value))
		}
		mirrorArguments(h, property, argument, depth-1)
		return len(h) < mostMirrored
	})
}

// primitive is the text of a string, a whole number or a truth value.
func primitive(value []byte) (string, bool) {
	switch value[0] {
	case '"':
		return wire.Text(value), true
	case 't', 'f':
		return string(value), true
	case 'n', '{', '[':
		return "", false
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	return string(value), err == nil && -safeInteger <= n && n <= safeInteger
}

// isToken reports whether a text can be a part of a header's name (RFC 9110, section 5.6.2).
func isToken(text string) bool {
	for _, b := range []byte(text) {
		letter := '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
		if !letter && strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0 {
			return false
		}
	}
	return text != "" && len(text) <= 128
}

// headerValue is a text as the value of a header: in base64 where it cannot stand there as
// it is.
func headerValue(text string) string {
	const prefix, suffix = "=?base64?", "?="
	encoded := strings.HasPrefix(text, prefix) && strings.HasSuffix(text, suffix)
	plain := !encoded && text == strings.Trim(text, " \t")
	for _, b := range []byte(text) {
		plain = plain && (b >= ' ' && b < 0x7f || b == '\t')
	}
	if plain {
		return text
	}
	return prefix + base64.StdEncoding.EncodeToString([]byte(text)) + suffix
}
