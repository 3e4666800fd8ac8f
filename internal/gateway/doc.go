// Package gateway offers the tools, prompts and resources of other people's MCP servers to
// the clients of one place, each server in a box of its own.
//
// A [Gateway] joins rooms that know nothing of each other: package config reads the files
// that say which servers there are, launch decides how each is started, upstream keeps their
// instances, peer speaks to them, pin says what of them is trusted, names by which names their
// tools are called, and mcp puts each call through the gate. Only what lies between them is here.
//
// The files, each calling those below it:
//
//	gateway.go    the Gateway: New, Reload, Begin, End, Gather, Close
//	status.go     what people see of it
//	preview.go    what a file would start
//	prompts.go    uses of prompts of servers
//	resources.go  uses of their resources
//	complete.go   values that complete what a person types
//	call.go       calls of their tools
//	dial.go       makes connections
//	login.go      logins at remote servers
//	conn.go       a connection, and when its lists are read again
//	logs.go       what a server logs, for clients
//	asked.go      what a server asks the person whose call runs
//	address.go    the addresses that it wants that person to open
//	addresses.go  those for which the person was asked
//	sampling.go   what it asks the model of that client, and roots
//	question.go   a question on its way to a client and back
//	kept.go       calls that wait for their clients to bring answers
//	beside.go     which prompts and resources a tenant is offered, and by which names and URIs
//	offers.go     which tools, and by which names
//	face.go       what a server says of itself, and which part of that is trusted
//	command.go    how a server is started, and which parts of that are pinned
//	digests.go    the digests of programs
//	boxes.go      starts servers in boxes
//	pipes.go      their streams
//	fetch.go      fetches what launchers start
//	servers.go    from the entries of files to servers
//	files.go      the files
//	site.go       what all of these share
//
// # Rules
//
//   - What a server lists is offered only after it was compared with the pins, and a call goes
//     only to a connection whose own list has what was offered.
//   - A file that agents can write decides nothing alone: its entries start after a person has
//     agreed to what they run.
//   - The values of secrets go into the one process or request that they are for. Nothing here
//     keeps them.
package gateway
