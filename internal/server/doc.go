// Package server is belljar's application: what lives longer than one command of the
// command line. Open opens everything that a command works with, in one order; Close
// releases it in the reverse order. The commands use it through Config and Server, parse
// their flags themselves and print.
//
// The files, each calling those below it:
//
//	server.go                      opening and closing: what the places of a process share
//	serve.go                       what goes on while a server runs, and its transports;
//	                               package front has what stands before those over HTTP
//	handover.go                    another process takes over the clients
//	routes.go, work.go             the front of a fleet, and a worker of one
//	fleetput.go                    the policy that an operator gives to the whole fleet
//	placehandlers.go               places that move, as the operator of a front sees them,
//	workmoves.go, workmarks.go     and as a worker has them
//	consolefleet.go                what people at the console of a front ask its workers
//	control.go, console.go         what other commands and people in a browser ask a server
//	consoleruns.go, boxes.go       that runs
//	consoletools.go, consolelogin.go, consoleprovider.go, operations.go
//	consolepeople.go, browsers.go
//	tenantquotas.go
//	upstreamcontrol.go
//	webhook.go, approvals.go       and the answers of people, which a webhook brings as well
//	approvers.go                   at the approvers of all places
//	announce.go                    what tells people that they are asked
//	reload.go, watcher.go          the policy is read again
//	tenants.go, frontfiles.go
//	lifetime.go                    what runs until the server is closed
//	monitor.go, ready.go           what an operator's programs ask: metrics and probes
//	policystatus.go
//	hookbox.go                     a box for each run of a hook
//	search.go, reading.go          what the tools work with
//	places.go, place.go, books.go  the workspaces at work
//	upstreams.go                   other people's servers there, see package gateway
//	ending.go                      how their sessions are ended
//	prepare.go                     what boxes need
//	questions.go, approver.go      questions to people
//	flow.go, around.go             skills, hooks and callbacks around calls
//	hooks.go, skills.go
//	callcounts.go                  what the console shows of calls
//	host.go                        what the server uses of the machine outside of boxes
//	gate.go, mode.go               the policy that holds
//	login.go, meters.go            who may come; what is counted
//	reel.go, recording.go          what is written down of calls
//	ledger.go
//	witness.go                     what other workers of a fleet keep of that
//	tracer.go
//	layout.go, workdir.go          the places of a policy; the directory of a worker
//	fleetpolicy.go                 the policy that was given to a fleet, on the disk
//	config.go                      what a command asks for
package server
