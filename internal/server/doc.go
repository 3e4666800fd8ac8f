// Package server is belljar's application: what lives longer than one command of the
// command line. It opens everything that a command works with, in one order, and closes
// it in the reverse order.
//
// The files, from the top down:
//
//	server.go      Open and Close
//	config.go      what a command may ask for
//	serve.go       what goes on while a server runs; its transports
//	control.go     what other commands ask a server: operations, boxHandlers, approvals, questions
//	reloader.go    the policy is read again: watcher, policystatus, gate with tenants
//	approver.go    questions to people, on the ways by which they are told: webhook, announcer
//	flow.go        skills, hooks and callbacks around calls
//	ledger.go      the audit log, with recordings; tracer.go has the spans
//	reading.go, search.go, books.go  what the tools work with
//
// The commands use it through Config and Server, and parse their flags themselves.
package server
