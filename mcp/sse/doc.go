// Package sse writes a server's messages on one HTTP response: one JSON text if the
// answer is the only message, or a stream of events (WHATWG HTML, "Server-sent events").
// Headers and comments keep proxies from buffering or cutting such a stream, and a client can
// resume it after a cut. Package mcp answers requests over HTTP with it.
//
// The files, each calling those below it:
//
//	aside.go     an Aside, for a handler that must not wait for its client
//	writer.go    a Writer, for a handler that writes its own events: other messages
//	             and comments go between them
//	stream.go    a Stream: messages go in from many goroutines, and the goroutine of an
//	             HTTP request writes them to its client
//	log.go       a Log: the latest events of all streams of a session, for clients that
//	             come back with the id of the last event they got
//	response.go  writes headers, comments, events and plain answers
//
// The package imports package wire and the standard library. It knows no message of
// the protocol. All that it keeps is bounded, no method but Serve waits for a client,
// and each write to a client has a deadline.
package sse
