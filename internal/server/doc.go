// Package server is belljar's application: the part that lives longer than one command of
// the command line. Open opens everything that a command works with, in a fixed order; Close
// releases it in the reverse order. The commands use it through Config and Server. They parse
// their flags and print their output themselves.
//
// The files, each calling those below it:
//
//	server.go                      opening and closing: what the places of a process share
//	serve.go                       the work of a running server, and its transports; package
//	                               front is the layer before the transports over HTTP
//	handover.go                    handing the clients over to another process
//	routes.go, work.go             the front of a fleet, and a worker of a fleet
//	fleetput.go                    the policy that an operator gives to the whole fleet
//	placehandlers.go               moving places: the commands of a front's operator,
//	workmoves.go, workmarks.go     and the part of a worker
//	consolefleet.go                the requests of a front's console to the workers
//	control.go, console.go         the requests of other commands and of people in a browser
//	consoleruns.go, boxes.go       the views and handlers for these requests
//	consoletools.go, consolelogin.go, consoleprovider.go, operations.go
//	consolepeople.go, browsers.go
//	tenantquotas.go
//	upstreamcontrol.go
//	webhook.go, approvals.go       the answers of people, also those through a webhook,
//	approvers.go                   at the approvers of all places
//	announce.go                    announcing questions to people on standard error
//	reload.go, watcher.go          reading the policy again
//	tenants.go, frontfiles.go
//	lifetime.go                    the contexts of work that runs until the server is closed
//	monitor.go, ready.go           metrics and probes for an operator's programs
//	policystatus.go
//	hookbox.go                     a box for each run of a hook
//	search.go, reading.go          what the tools work with
//	places.go, place.go, books.go  the open workspaces
//	upstreams.go                   other people's servers in them, see package gateway
//	ending.go                      ending their sessions
//	prepare.go                     making what boxes need
//	questions.go, approver.go      questions to people
//	flow.go, around.go             skills, hooks and callbacks around calls
//	hooks.go, skills.go
//	callcounts.go                  the numbers of calls that the console shows
//	host.go                        what the server uses of the machine outside of boxes
//	gate.go                        the policy in force, and the mode of the workspace
//	login.go, meters.go            checking who clients are; counting
//	reel.go, recording.go          recording calls
//	ledger.go
//	witness.go                     what other workers of a fleet keep of the log
//	tracer.go
//	layout.go, workdir.go          the places of a policy; the directory of a worker
//	fleetpolicy.go                 the policy that was given to a fleet, on the disk
//	config.go                      the configuration of a command
package server
