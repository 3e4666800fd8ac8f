// Package webcheck examines a server over HTTP from outside, in the way of its clients and
// of strangers, with whatever proxy stands before it. `belljar doctor --http` prints what
// it finds.
//
// From the top down:
//
//	webcheck  the list of checks, and what a check finds
//	strangers what those get who may not use the server
//	clients   what those get who may
//	wire      requests, byte by byte where a client library would repair them
//
// It changes nothing: it begins a session, lists tools, and ends the session.
package webcheck
