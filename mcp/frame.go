package mcp

import (
	"log/slog"
	"runtime/debug"

	"belljar.dev/mcp/wire"
)

// framed returns the answer to a request of a method as a line of the wire without its LF,
// and the error in the answer, if any. build makes the line. If build panics, for example
// in a MarshalJSON of a result, the answer is an error, too. tool is the name of the called
// tool for the log; empty if the request is not a call.
func framed(log *slog.Logger, m *wire.Message, out *outgoing, method, tool string, build func() ([]byte, error)) (frame []byte, bad *wire.Error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("an answer panicked", "method", method, "tool", tool, "panic", p, "stack", string(debug.Stack()))
			bad = wire.Errorf(wire.InternalError, "internal error in %s; the server's log states the cause", method)
		}
		if bad != nil {
			out.Done(false)
			frame = bad.Frame(m.ID, m.Era())
		}
	}()
	frame, err := build()
	if err != nil {
		return nil, wire.AsError(err)
	}
	return frame, nil
}
