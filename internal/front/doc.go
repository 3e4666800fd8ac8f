// Package front is the part of a server between the network and the handlers: the
// listener with its TLS, and the checks that each request passes before a handler sees
// it. internal/server mounts mcp's handler and all other handlers in it.
//
// A request passes these steps, and the first check that fails answers it:
//
//	listener        the connections of one address are bounded
//	TLS, net/http   the handshake and the headers must arrive in time, within their size
//	access log      gets a line when the answer has ended, whatever the answer is
//	body            must arrive in time
//	sender          behind a proxy, the request must come from the proxy
//	Host, Origin    the name must be one of the server's; the page may use the server
//	preflight       is answered here
//	route           the handler: the caller, its quota, its session, its call
//
// ServeHTTP in front.go has these steps in this order, for every route and method. A
// handler gets a request whose body was not read.
//
// The files, each calling those below it:
//
//	front.go               the chain of checks
//	admin.go               a separate listener for the operator
//	inherit.go, tls.go     sockets that another process opened; the certificate
//	meter.go, access.go    the metrics of a request, and its line in the log
//	bound.go, client.go    the time limits of a request and its answer
//	cors.go                the answer to a preflight
//	listen.go, proxy.go    the port, the connections of an address, and their client
//	holder.go              the process that has a port
package front
