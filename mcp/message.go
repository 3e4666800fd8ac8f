package mcp

import (
	"bytes"
	"errors"
	"strings"
)

// longestID bounds the bytes of a request id: each is kept while its request
// is in flight, and no client needs more.
const longestID = 1 << 10

// modernRevision is the first revision without initialize. Revisions are
// dates, so they order as text.
const modernRevision = "2026-07-28"

// message is one checked JSON-RPC message. Its slices point into the line.
type message struct {
	id       []byte // as the client wrote it; nil if it has none
	key      string // id in the one spelling under which it is looked up
	method   string // empty for a response
	params   []byte // an object, or nil
	revision string // what params._meta says, empty in the legacy era
	raw      []byte // the whole message
}

func (m *message) isRequest() bool      { return m.method != "" && m.id != nil }
func (m *message) isNotification() bool { return m.method != "" && m.id == nil }

// era is the era the message itself belongs to.
func (m *message) era() era {
	if m.revision >= modernRevision {
		return modern
	}
	return legacy
}

var bom = []byte("\ufeff")

// checkLine reports whether a line is JSON that the guard lets through.
func checkLine(line []byte, depth int) *wireError {
	err := checkJSON(line, depth)
	var dup *duplicateKeyError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errDeep):
		return fault(invalidRequest, "invalid request: nested deeper than %d levels", depth)
	case errors.As(err, &dup):
		return fault(invalidRequest, "invalid request: %v", dup)
	}
	return fault(parseError, "parse error: %v; each line must hold one JSON object", err)
}

// parseMessage reads one message out of JSON that has passed checkLine. Where it
// fails, it still returns the members that it has read, so that the answer can
// carry the id. A method that is not a string is empty.
func parseMessage(raw []byte) (*message, *wireError) {
	m := &message{raw: raw}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return m, fault(invalidRequest, "invalid request: a message is a JSON object")
	}
	var version, id, method, result, failure []byte
	members(raw, func(name, value []byte) bool {
		switch unquote(name) {
		case "jsonrpc":
			version = value
		case "id":
			id = value
		case "method":
			method = value
		case "params":
			m.params = value
		case "result":
			result = value
		case "error":
			failure = value
		}
		return true
	})
	var bad *wireError
	if id != nil {
		if m.key, bad = idKey(id); bad == nil {
			m.id = id
		}
	}
	if bytes.Equal(m.params, []byte("null")) {
		m.params = nil
	}
	switch {
	case version == nil || unquoteText(version) != "2.0":
		return m, fault(invalidRequest, `invalid request: the member "jsonrpc" must be "2.0"`)
	case method == nil && (result != nil || failure != nil):
		// A response with an unreadable id answers nothing we asked, and
		// JSON-RPC does not answer responses.
		return m, nil
	case method == nil:
		return m, fault(invalidRequest, `invalid request: the member "method" is missing`)
	case method[0] != '"' || len(method) == 2:
		return m, fault(invalidRequest, `invalid request: the member "method" must be the name of a method`)
	case bad != nil:
		return m, bad
	case m.params != nil && m.params[0] != '{':
		m.method = unquote(method)
		return m, fault(invalidParams, `invalid params: the member "params" must be an object`)
	}
	m.method = unquote(method)
	if m.params != nil {
		if meta := member(m.params, "_meta"); meta != nil {
			m.revision = unquoteText(member(meta, "io.modelcontextprotocol/protocolVersion"))
		}
	}
	return m, nil
}

// idKey returns the one spelling of a request id, or says why it is not valid:
// MCP allows strings and whole numbers, and neither null nor fractions
// (basic/index, requests).
func idKey(id []byte) (string, *wireError) {
	switch {
	case len(id) > longestID:
		return "", fault(invalidRequest, "invalid request: the id is longer than %d bytes", longestID)
	case id[0] == '"':
		return "s" + unquote(id), nil
	case id[0] == '-' || '0' <= id[0] && id[0] <= '9':
		if bytes.ContainsAny(id, ".eE") {
			return "", fault(invalidRequest, "invalid request: the id must be a string or a whole number, got %s", id)
		}
		return "n" + strings.Replace(string(id), "-0", "0", 1), nil
	}
	return "", fault(invalidRequest, "invalid request: the id must be a string or a whole number")
}

// unquoteText is the text of a JSON string and empty for any other value.
func unquoteText(value []byte) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	return unquote(value)
}
