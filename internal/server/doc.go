// Package server is belljar's application: what lives longer than one command of the
// command line. Open opens everything that a command works with, in one order; Close
// releases it in the reverse order. The commands use it through Config and Server, parse
// their flags themselves and print.
//
// From the top down:
//
//	server, config             opening and closing: what the places of a process share
//	places, place, layout      the workspaces at work, and who enters them
//	serve                      what goes on while a server runs, and its transports;
//	                           package front has what stands before those over HTTP
//	handover                   another process takes over the clients
//	control, operations, boxes, approvals, questions
//	                           what other commands ask a server that runs
//	reload, watcher, policystatus
//	                           the policy is read again
//	approver, webhook, announce
//	                           questions to people, and what tells people of them
//	flow, around, hooks, hookbox, skills
//	                           skills, hooks and callbacks around calls
//	reading, search, books, host
//	                           what the tools work with
//	gate, tenants, mode        the policy that holds, and who may come
//	monitor, ready, meters     what an operator's programs ask: probes and metrics
//	ledger, recording, tracer  what is written down of calls
package server
