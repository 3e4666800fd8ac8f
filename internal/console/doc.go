// Package console serves what a person wants to see of a server, and to decide in it, to a
// browser: on this machine or, with TLS and people in the policy, on others. It has a listener
// of its own, and is not there unless it was asked for.
//
// A request goes through the chain of package front: bounds, Host, Origin. Then the table of
// routes.go says which role its route needs, and access.go whose token it has. A handler asks
// the server by the interfaces of views.go, which internal/server has; it is the same code
// that answers the control socket. A view that the server does not have has no routes. For people
// of some tenants, limited.go puts views in their place that show no others.
//
// A person logs in by a code that `belljar console` got from the control socket, or from
// elsewhere by a token of their own. The code is good for one login within a minute. The token that the page gets for it is in the memory of
// this process only, so it ends with the process at the latest. The console uses no cookies: a
// browser sends them to every port of a host, and a port of this host may be an agent's.
//
// The files, each calling those below it:
//
//	serve.go     the listener and what is served there; absent.go where it is left out
//	console.go   a console, and what every answer has
//	routes.go    the table of routes, and who may use each of them
//	limited.go   what people of some tenants see of a server
//	part.go      the data of a worker, for the consoles at its fronts
//	login.go     logging in and out
//	events.go    what changes, as a stream
//	provider.go  logging in at an OpenID Provider, and who may still come
//	tries.go     how often a login there may end
//	upstreamlogin.go logging in at a server of other people
//	fleet.go     the workers of a front as one server
//	inbox.go     approvals and questions
//	runs.go      boxes, sessions, background tasks and their output
//	trail.go     what the audit log has about a decision of a person
//	records.go   the audit log
//	casts.go     recordings of calls
//	policy.go    the policy, and what it would decide
//	upstreams.go the servers of other people
//	workspaces.go
//	             what boxes changed, and what becomes of it
//	shots.go     pictures of browsers
//	tools.go     search engines, browsers, todos, plans and callbacks
//	stats.go     counts
//	usage.go     what boxes used of late
//	passed.go    who asks, as a front tells a worker
//	request.go   what a request says, and the answer to it
//	access.go    codes and tokens
//	ring.go      the last events
//	scope.go     whose things a person may see
//	ansi.go      the output of programs, with its colours
//	views.go     what a console asks of a server
package console
