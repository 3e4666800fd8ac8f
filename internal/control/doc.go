// Package control is the conversation between a server that runs and the other commands
// of its user: HTTP over a Unix socket in the state directory, which is its user's alone.
// No box can see the directory.
//
// internal/server answers: it has the handlers, and Listen checks who connects. The
// commands ask: Clients finds the servers, Ask asks one and Each asks all. wire.go,
// tenant.go, upstream.go and console.go have the messages; their JSON is what `--json` prints, so
// keys may be added, and no key is removed or changes its meaning.
package control
