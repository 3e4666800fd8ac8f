// Package gateway offers the tools, prompts and resources of upstreams, which are MCP servers
// of other people, to the clients of one place. Each upstream runs in a box of its own.
//
// A [Gateway] connects packages that do not know each other: config reads the files of servers,
// launch decides how each server is started, upstream manages their instances, peer speaks to
// them, pin decides what is trusted, names assigns the names of their tools, and mcp checks each
// call at the gate. This package contains only the code between them.
//
// The files, each calling those below it:
//
//	gateway.go    the Gateway: New, Reload, Begin, End, Gather, Close
//	status.go     the state of a gateway, for people
//	preview.go    the servers that a file would start
//	prompts.go    uses of servers' prompts
//	resources.go  uses of servers' resources
//	complete.go   values that complete what a person types
//	call.go       calls of servers' tools
//	dial.go       connecting to servers
//	login.go      logins at remote servers
//	conn.go       a connection, and when its lists are read again
//	logs.go       log messages of a server, for clients
//	asked.go      questions of a server to the person whose call runs
//	address.go    addresses that a server wants that person to open
//	addresses.go  addresses that the person was asked to open
//	sampling.go   questions of a server to the model of a client, and roots
//	question.go   a question on its way to a client and back
//	kept.go       calls that wait for answers from their clients
//	beside.go     the prompts and resources that a tenant is offered, their names and URIs
//	offers.go     the tools that a tenant is offered, and their names
//	face.go       what a server reports about itself, and the trusted part of it
//	command.go    how a server is started, and the parts of that which are pinned
//	digests.go    the digests of programs
//	boxes.go      servers in boxes
//	pipes.go      the streams of servers
//	fetch.go      fetching what launchers start
//	servers.go    the servers for the entries of files
//	files.go      the files of servers
//	site.go       the data that all of these files share
//
// # Rules
//
//   - The definitions of a server are offered only after they were compared with the pins, and
//     a call goes only to a connection whose own list has the definition that was offered.
//   - A file that agents can write decides nothing alone: its entries start only after a person
//     has agreed to what they run.
//   - The value of a secret is passed only to the process or request that needs it. Nothing here
//     stores it.
package gateway
