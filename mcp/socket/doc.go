// Package socket reads and writes the messages of a WebSocket (RFC 6455): each line that is
// written becomes one message. Package mcp serves clients over a WebSocket with it.
//
//   - socket.go is a Conn: accepted, read, written and closed. It pings its client, and
//     ends if the client does not answer, does not read, or sends a message that is not
//     text.
//   - handshake.go reads what the headers of a request say about a WebSocket.
//
// The library github.com/coder/websocket handles the frames; no exported name shows it.
// The package imports nothing else. It knows no message of the protocol. All that it
// keeps is bounded, and each wait for a client has an end.
package socket
