// Package front is what stands between a network and the handlers of a server: the
// listener with its TLS, and the checks that each request passes before a handler sees
// it. internal/server mounts mcp's handler in it, and whatever else it serves.
//
// One request goes this way, and the first check that fails answers it:
//
//	listener        connections of one address are bounded
//	TLS, net/http   the handshake and the headers come in time, within their size
//	access log      gets a line when the answer has ended, whatever it is
//	body            has its time to come
//	sender          behind a proxy, it is a request of the proxy
//	Host, Origin    the name is one of the server's; the page may use the server
//	preflight       is answered here
//	route           the handler: the caller, its quota, its session, its call
//
// ServeHTTP in front.go has them in this order, for every route and method. A handler
// gets a request with the body unread.
//
// The files, each calling those below it:
//
//	front.go               the chain
//	admin.go               a listener of its own, for whoever operates the server
//	inherit.go, tls.go     the sockets that another process opened; the certificate
//	meter.go, access.go    what is counted of a request, and its line in the log
//	bound.go, client.go    the time that it has, and that its answer has
//	cors.go                the answer to a preflight
//	listen.go, proxy.go    the port, the connections of an address, and whose it is
//	holder.go              which process has a port
package front
