// Package wire contains what crosses the wire as bytes: lines, JSON, JSON-RPC messages,
// batches and errors. Package mcp, which serves clients, and package peer, which is a client
// of other servers, read and write with it.
//
//   - frame.go cuts a stream into lines of bounded length, and writes lines to a reader
//     that may be slow.
//   - json.go checks that a text is one JSON value: UTF-8, bounded depth, no member
//     twice in an object. It reads members and elements without decoding the rest, and
//     quotes texts.
//   - message.go reads a JSON-RPC message out of checked JSON.
//   - header.go has the headers that repeat parts of a request.
//   - name.go has the headers and the members of _meta that both sides read and write.
//   - ident.go finds the id of a request or an answer in a line that was refused.
//   - batch.go gathers the answers to a batch.
//   - error.go has the errors that clients get, with their codes for each era.
//
// The package has no server, session or tool in it and imports only the standard
// library. Nothing that the other side sends may make it panic, or use memory beyond the
// limits that its callers give.
package wire
