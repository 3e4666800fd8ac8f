// Package peer is the client's side of one connection to one MCP server that somebody else
// wrote. No message of such a server is trusted: each message is bounded, checked and
// counted, and nothing that it does may panic, block a caller for ever or make memory grow.
// Package upstream has one Conn for each server that runs.
//
//   - peer.go has the Conn: Open, Info, Done, Close.
//   - handshake.go finds out the era of the server and agrees on a revision.
//   - call.go makes a call: one request, until its answer, its timeout or its cancellation.
//   - table.go has the calls and requests that are open, and finds the one that an answer
//     belongs to.
//   - request.go writes the requests, with the _meta of this hop.
//   - input.go answers a result that asks for input, and makes the call again.
//   - list.go reads a list page by page.
//   - progress.go passes on a server's progress of a running call and its log messages, at a
//     bounded rate.
//   - subscribe.go keeps a modern server's subscription to changes of its lists.
//   - guard.go reads the messages of the server, and decides which of them are valid.
//   - asked.go has the requests of the server: each goes to a handler, or is refused.
//   - inbox.go has the queue of notifications.
//   - pipes.go is the Transport over the standard streams of a process.
//   - http.go is the Transport over HTTP: Streamable HTTP, and the HTTP+SSE before it.
//   - post.go sends one message over HTTP and reads the answer.
//   - events.go reads a stream of events.
//   - header.go writes the headers that repeat parts of a message.
//   - errors.go has the errors that callers get.
//   - tail.go keeps the last lines of a stream, such as the stderr of a server.
//
// # Fidelity
//
// Params go in and results come out as the JSON that was written, so no member is lost. Only
// the _meta of a request is written anew, because its progress token, its revision and its
// capabilities are those of this hop.
//
// # Why not the client of the go-sdk
//
// Over stdio its connection ends at the first line that is not a message, and its queue of
// notifications has no bound. Over HTTP its StreamableClientTransport reads a JSON body and
// the body of an error to the end whatever their size, ends the whole connection at one event
// that it cannot decode, rounds ids to floating-point numbers, drops the members of an error
// that it does not know, and does not wait at Close for the goroutines that read. It also
// gets the agreed revision through a method that is not exported. So without the client of
// the go-sdk, that transport neither sends MCP-Protocol-Version nor opens the stream of
// notifications. Therefore this package has its own transports over package wire; it imports
// no other module.
package peer
