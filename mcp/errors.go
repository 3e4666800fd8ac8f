package mcp

import (
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"belljar.dev/mcp/wire"
)

// ErrShutdown is the cause of a call's cancelled context, and the error of a
// new call, when the session or the server is ending.
var ErrShutdown = errors.New("the server is shutting down")

// ErrEnded takes the place of ErrShutdown if Server.End has ended the session.
var ErrEnded = errors.New("the operator of this server has ended this session, with its box and its background tasks")

// forSDK returns an error in the type of the go-sdk.
func forSDK(e *wire.Error, in wire.Era) *jsonrpc.Error {
	return &jsonrpc.Error{Code: e.Code(in), Message: e.Text, Data: e.RawData()}
}
