// Package socket makes messages of a WebSocket (RFC 6455), and lines of messages frames.
// Package mcp serves clients over a WebSocket with it.
//
//   - socket.go is a Conn: accepted, read, written and closed. It pings its client, and
//     ends where the client does not answer, does not read, or sends what is not a
//     message of text.
//   - handshake.go reads what a request says of a WebSocket.
//
// Frames are the business of github.com/coder/websocket, which no exported name shows.
// The package imports nothing else. It knows no message of the protocol. All that it
// keeps is bounded, and each wait for a client has an end.
package socket
