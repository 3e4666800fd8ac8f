package wire

import (
	"bytes"
	"errors"
	"strings"
)

// longestID bounds the bytes of a request id: each is kept while its request
// is in flight, and no client needs more.
const longestID = 1 << 10

// ModernRevision is the first revision without initialize. Revisions are
// dates, so they order as text.
const ModernRevision = "2026-07-28"

// LegacyRevisions are the revisions before ModernRevision, the newest first.
var LegacyRevisions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// Message is one checked JSON-RPC message. Its slices point into the line.
type Message struct {
	ID       []byte // id as the client wrote it; nil if the message has no id
	Key      string // ID in the one spelling under which it is looked up
	Method   string // empty for a response
	Params   []byte // an object, or nil
	Result   []byte // result of a response; nil if it has none
	Failure  []byte // the member "error" of a response; nil if it has none
	Meta     []byte // params._meta, or nil
	Revision string // revision in params._meta; empty in the legacy era
	Raw      []byte // the whole message
}

// IsRequest reports whether the message wants an answer.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether the message is a notification, which gets no answer.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// Era returns the era that the message itself belongs to.
func (m *Message) Era() Era {
	if m.Revision >= ModernRevision {
		return Modern
	}
	return Legacy
}

var bom = []byte("\ufeff")

// TrimLine returns a line without a byte order mark and without the space around it.
func TrimLine(line []byte) []byte { return bytes.TrimSpace(bytes.TrimPrefix(line, bom)) }

// CheckLine returns the error for a line that is not valid JSON, has a member twice or is
// nested too deeply, and nil for any other line.
func CheckLine(line []byte, depth int) *Error {
	err := CheckJSON(line, depth)
	if err == nil {
		return nil
	}
	dup, twice := errors.AsType[*DuplicateKeyError](err)
	switch {
	case errors.Is(err, ErrDeep):
		return Errorf(InvalidRequest, "invalid request: nested deeper than %d levels", depth)
	case twice:
		return Errorf(InvalidRequest, "invalid request: %v", dup)
	}
	return Errorf(ParseError, "parse error: %v; each line must contain one JSON object", err)
}

// ParseMessage reads one message out of JSON that has passed CheckLine. If it fails, it
// still returns the members that it has read, so that the answer can contain the id. A
// method that is not a string is returned as empty.
func ParseMessage(raw []byte) (*Message, *Error) {
	m := &Message{Raw: raw}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return m, Errorf(InvalidRequest, "invalid request: a message is a JSON object")
	}
	var version, id, method, result, failure []byte
	Members(raw, func(name, value []byte) bool {
		switch string(name) {
		case "jsonrpc":
			version = value
		case "id":
			id = value
		case "method":
			method = value
		case "params":
			m.Params = value
		case "result":
			result = value
		case "error":
			failure = value
		}
		return true
	})
	var bad *Error
	if id != nil {
		if m.Key, bad = IDKey(id); bad == nil {
			m.ID = id
		}
	}
	if bytes.Equal(m.Params, []byte("null")) {
		m.Params = nil
	}
	switch {
	case version == nil || Text(version) != "2.0":
		return m, Errorf(InvalidRequest, `invalid request: the member "jsonrpc" must be "2.0"`)
	case method == nil && (result != nil || failure != nil):
		// A response with an unreadable id answers none of our requests, and JSON-RPC does
		// not answer responses.
		m.Result, m.Failure = result, failure
		return m, nil
	case method == nil:
		return m, Errorf(InvalidRequest, `invalid request: the member "method" is missing`)
	case method[0] != '"' || len(method) == 2:
		return m, Errorf(InvalidRequest, `invalid request: the member "method" must be the name of a method`)
	case bad != nil:
		return m, bad
	case m.Params != nil && m.Params[0] != '{':
		m.Method = Unquote(method)
		return m, Errorf(InvalidParams, `invalid params: the member "params" must be an object`)
	}
	m.Method = Unquote(method)
	m.Meta = Member(m.Params, "_meta")
	m.Revision = Text(Member(m.Meta, RevisionKey))
	return m, nil
}

// IDKey returns the one spelling of a request id, or an error if the id is not valid: MCP
// allows strings and whole numbers, and neither null nor fractions (basic/index, requests).
func IDKey(id []byte) (string, *Error) {
	switch {
	case len(id) > longestID:
		return "", Errorf(InvalidRequest, "invalid request: the id is longer than %d bytes", longestID)
	case id[0] == '"':
		return "s" + Unquote(id), nil
	case id[0] == '-' || '0' <= id[0] && id[0] <= '9':
		if bytes.ContainsAny(id, ".eE") {
			return "", Errorf(InvalidRequest, "invalid request: the id must be a string or a whole number, got %s", id)
		}
		return "n" + strings.Replace(string(id), "-0", "0", 1), nil
	}
	return "", Errorf(InvalidRequest, "invalid request: the id must be a string or a whole number")
}

// Text returns the text of a JSON string, and an empty text for any other value.
func Text(value []byte) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	return Unquote(value)
}
