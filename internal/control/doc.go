// Package control is the protocol between a running server and the other commands of its
// user: HTTP over a Unix socket in the state directory. Only the user can access that
// directory, and no box can see it.
//
// internal/server is the server: it has the handlers, and Listen checks who connects. The
// commands are the clients: Clients finds the servers, Ask sends a request to one of them
// and Each to all. wire.go, tenant.go, upstream.go and console.go have the messages. Their
// JSON is the output of `--json`, so keys may be added, and no key is removed or changes
// its meaning.
package control
