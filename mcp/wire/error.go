package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Era is the half of the protocol's history that a request belongs to.
type Era int

// The two eras.
const (
	Legacy Era = iota // revisions with initialize, up to 2025-11-25
	Modern            // 2026-07-28: each request states its revision
)

// Kind is the kind of an error. On the wire each kind is a number.
type Kind int

// The kinds of errors.
const (
	ParseError Kind = iota
	InvalidRequest
	MethodNotFound
	InvalidParams
	InternalError
	RateLimited
	NotFound
	HeaderMismatch // a header and the body do not say the same
	// Kinds of errors in calls about templates.
	TemplateNotFound  // no template has the URI or the name
	TemplateURI       // a text is not the URI of a template
	TemplateParameter // the parameters do not fit the schema of the template
)

// The codes of JSON-RPC 2.0, section 5.1, and one code of MCP.
const (
	codeParseError     = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternalError  = -32603
	codeHeaderMismatch = -32020 // over HTTP in the modern era only
)

// Code returns the number of a kind in an era. Modern revisions ask servers to keep out of
// -32000..-32019 and forbid -32002, so the number of RateLimited is outside the reserved
// range (MCP 2026-07-28, basic/index, error codes).
func (k Kind) Code(e Era) int64 {
	switch k {
	case ParseError:
		return codeParseError
	case InvalidRequest:
		return codeInvalidRequest
	case MethodNotFound:
		return codeMethodNotFound
	case InvalidParams:
		return codeInvalidParams
	case RateLimited:
		if e == Modern {
			return -31003
		}
		return -32003
	case NotFound:
		if e == Modern {
			return codeInvalidParams
		}
		return -32002
	case HeaderMismatch:
		return codeHeaderMismatch
	case TemplateNotFound:
		return templateCode(e, -32000)
	case TemplateURI:
		return templateCode(e, -32001)
	case TemplateParameter:
		return templateCode(e, -32002)
	case InternalError:
	}
	return codeInternalError
}

// templateCode returns the number of an error of a call about templates. In the modern era
// all of them are wrong parameters, and the data of the error has the reason.
func templateCode(e Era, legacy int64) int64 {
	if e == Modern {
		return codeInvalidParams
	}
	return legacy
}

// Error is an error that a client gets as a JSON-RPC error.
type Error struct {
	Kind   Kind
	Text   string
	Data   any   // is marshalled as error.data; nil if the error has no data
	Number int64 // the code of an error of another server; 0 if the code is that of Kind
}

// Code returns the number of the error in an era.
func (e *Error) Code(in Era) int64 {
	if e.Number != 0 {
		return e.Number
	}
	return e.Kind.Code(in)
}

// Error returns the text that the client gets.
func (e *Error) Error() string { return e.Text }

// Errorf returns an error with a text in the manner of fmt.Sprintf.
func Errorf(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Text: fmt.Sprintf(format, args...)}
}

// AsError returns err in the form that a client may see.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return Errorf(InternalError, "%v", err)
}

// OverLimit returns the error for a request that is above a limit. limit is the limit's
// name in Limits, as it is spelled on the wire.
func OverLimit(limit string, retry time.Duration, format string, args ...any) *Error {
	e := Errorf(RateLimited, format, args...)
	e.Data = map[string]any{
		"reason": "rate_limited", "limit": limit, "retryAfterMs": max(1, retry.Milliseconds()),
	}
	return e
}

// RawData returns error.data in JSON, or nil if the error has no data.
func (e *Error) RawData() json.RawMessage {
	if e.Data == nil {
		return nil
	}
	raw, _ := json.Marshal(e.Data) // Data is a map of strings and numbers, or a refusal: both always marshal
	return raw
}

// Frame returns the error as a line of the wire, without its LF. id is nil if it
// could not be read; JSON-RPC answers such a request with the id null.
func (e *Error) Frame(id []byte, in Era) []byte {
	return ErrorFrame(id, e.Code(in), e.Text, e.RawData())
}

// ErrorFrame returns an error as a line of the wire, without its LF. id is nil if it could
// not be read. data is JSON, or nil if the error has no data.
func ErrorFrame(id []byte, code int64, text string, data json.RawMessage) []byte {
	if id == nil {
		id = []byte("null")
	}
	body, err := json.Marshal(struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data,omitempty"`
	}{code, text, data})
	if err != nil { // data was not JSON
		body = []byte(`{"code":-32603,"message":"internal error"}`)
	}
	return answer(id, `,"error":`, body)
}

// ResultFrame returns a result as a line of the wire, without its LF.
func ResultFrame(id, result []byte) []byte { return answer(id, `,"result":`, result) }

func answer(id []byte, member string, value []byte) []byte {
	out := make([]byte, 0, len(value)+len(id)+40)
	out = append(out, `{"jsonrpc":"2.0","id":`...)
	out = append(out, id...)
	out = append(out, member...)
	out = append(out, value...)
	return append(out, '}')
}

// TooLarge returns the error that a client gets instead of an answer above the limit.
func TooLarge(size, limit int) *Error {
	return Errorf(InternalError,
		"the answer has %d bytes and the limit is %d; ask for less, for example with a range or a filter", size, limit)
}
