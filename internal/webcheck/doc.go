// Package webcheck examines a server over HTTP from outside, in the same way as clients and
// strangers use it, and through any proxy in front of it. `belljar doctor --http` prints the
// findings.
//
// From the top down:
//
//	webcheck  the list of checks, and their findings
//	strangers the answers to clients that may not use the server
//	clients   the answers to clients that may use it
//	wire      requests, byte by byte where a client library would repair them
//
// The checks change nothing on the server: they begin a session, list tools, and end the
// session.
package webcheck
