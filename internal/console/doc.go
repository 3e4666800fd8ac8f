// Package console serves a page to browsers on which a person sees the state of a server and
// makes decisions. It serves browsers on this machine and, with TLS and people in the policy,
// browsers on other machines. It has a listener of its own, and runs only if it was configured.
//
// A request passes the checks of package front: bounds, Host, Origin. Then the table in routes.go
// says which role the route needs, and access.go finds the person whose token the request has. A
// handler calls the server through the interfaces of views.go. internal/server implements them with
// the code that also answers the control socket. A view that the server does not have has no
// routes. For people of some tenants, limited.go replaces the views by views that show only the
// things of these tenants.
//
// A person logs in with a code that `belljar console` got from the control socket, or on another
// machine with a token of their own. The code can be used for one login within a minute. The token
// that the page gets for it is kept only in the memory of this process, so it ends with the process
// at the latest. The console uses no cookies: a browser sends cookies to every port of a host, and
// an agent may own a port of this host.
//
// The files, each calling those below it:
//
//	serve.go     the listener and what is served there; absent.go in a build without a console
//	console.go   a console, and the headers of every answer
//	routes.go    the table of routes, and who may use each of them
//	limited.go   the views of people of some tenants
//	part.go      the data of a worker, for the consoles at its fronts
//	login.go     logging in and out
//	events.go    the stream of changes
//	provider.go  logging in at an OpenID Provider, and whether that login still holds
//	tries.go     how often a login at a provider may be tried
//	upstreamlogin.go logging in at an upstream
//	fleet.go     the workers of a front as one server
//	inbox.go     approvals and questions
//	runs.go      boxes, sessions, background tasks and their output
//	trail.go     the records in the audit log about a decision of a person
//	records.go   the audit log
//	casts.go     recordings of calls
//	policy.go    the policy, and what it would decide
//	upstreams.go the upstreams
//	workspaces.go
//	             the changes of boxes, and the decisions about them
//	shots.go     pictures of browsers
//	tools.go     search engines, browsers, todos, plans and callbacks
//	stats.go     counts
//	usage.go     the recent usage of boxes
//	passed.go    the person of a request that a front passes to a worker
//	request.go   the contents of a request, and the answer to it
//	access.go    codes and tokens
//	ring.go      the last events
//	scope.go     the tenants whose things a person may see
//	ansi.go      the output of programs, with its colours
//	views.go     the interfaces through which a console uses a server
package console
