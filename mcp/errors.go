package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// ErrShutdown is the cause of a call's cancelled context, and the error of a
// new call, when the session or the server is ending.
var ErrShutdown = errors.New("the server is shutting down")

// ErrEnded takes the place of ErrShutdown if Server.End has ended the session.
var ErrEnded = errors.New("the operator of this server has ended this session, with its box and its background tasks")

// era is which half of the protocol's history a request belongs to.
type era int

const (
	legacy era = iota // revisions with initialize, up to 2025-11-25
	modern            // 2026-07-28: each request says its revision
)

// kind is the symbolic form of an error; the wire has numbers.
type kind int

const (
	parseError kind = iota
	invalidRequest
	methodNotFound
	invalidParams
	internalError
	rateLimited
	notFound
	headerMismatch // a header and the body say different things
)

// codeHeaderMismatch exists over HTTP in the modern era only.
const codeHeaderMismatch = -32020

// code returns the number of a kind in an era. Modern revisions ask servers to keep
// out of -32000..-32019 and forbid -32002, so our own number is outside the
// reserved range (2026-07-28, basic/index, error codes).
func (k kind) code(e era) int64 {
	switch k {
	case parseError:
		return jsonrpc.CodeParseError
	case invalidRequest:
		return jsonrpc.CodeInvalidRequest
	case methodNotFound:
		return jsonrpc.CodeMethodNotFound
	case invalidParams:
		return jsonrpc.CodeInvalidParams
	case rateLimited:
		if e == modern {
			return -31003
		}
		return -32003
	case notFound:
		if e == modern {
			return jsonrpc.CodeInvalidParams
		}
		return -32002
	case headerMismatch:
		return codeHeaderMismatch
	case internalError:
	}
	return jsonrpc.CodeInternalError
}

// wireError is an error that a client gets as a JSON-RPC error.
type wireError struct {
	kind kind
	text string
	data any // marshalled as error.data; nil for none
}

// Error returns the text that the client gets.
func (e *wireError) Error() string { return e.text }

func fault(k kind, format string, args ...any) *wireError {
	return &wireError{kind: k, text: fmt.Sprintf(format, args...)}
}

// asWire returns err in the form that a client may see.
func asWire(err error) *wireError {
	if e, ok := errors.AsType[*wireError](err); ok {
		return e
	}
	return fault(internalError, "%v", err)
}

// overLimit refuses a request that is above a limit. limit is the limit's name in
// Limits, in the wire's spelling.
func overLimit(limit string, retry time.Duration, format string, args ...any) *wireError {
	e := fault(rateLimited, format, args...)
	e.data = map[string]any{
		"reason": "rate_limited", "limit": limit, "retryAfterMs": max(1, retry.Milliseconds()),
	}
	return e
}

// sdk is the error as the go-sdk carries it.
func (e *wireError) sdk(in era) *jsonrpc.Error {
	out := &jsonrpc.Error{Code: e.kind.code(in), Message: e.text}
	if e.data != nil {
		// The data are maps of strings and numbers made here; they marshal.
		out.Data, _ = json.Marshal(e.data)
	}
	return out
}

// frame returns the error as a line of the wire, without its LF. id is nil if it
// could not be read; JSON-RPC answers such a request with the id null.
func (e *wireError) frame(id []byte, in era) []byte {
	return errorFrame(id, e.sdk(in))
}

func errorFrame(id []byte, e *jsonrpc.Error) []byte {
	if id == nil {
		id = []byte("null")
	}
	body, err := json.Marshal(e)
	if err != nil { // Data was not JSON
		body = []byte(`{"code":-32603,"message":"internal error"}`)
	}
	out := make([]byte, 0, len(body)+len(id)+40)
	out = append(out, `{"jsonrpc":"2.0","id":`...)
	out = append(out, id...)
	out = append(out, `,"error":`...)
	out = append(out, body...)
	return append(out, '}')
}
