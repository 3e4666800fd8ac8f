// Package mcp is the front end: it reads JSON-RPC from a client, lets a policy
// decide each tools/call, runs the tool and answers. The protocol itself is
// implemented by the official go-sdk. This package puts a guard in front of it, so that no
// line from a client can end the process, make it grow without limit, or reach a
// tool without the policy.
//
// # The way of one tools/call
//
//  1. Over stdio (stdio.go), conversation.go serves the client until its end. lines.go
//     handles its lines, which wire/frame.go cuts out of the byte stream, at most
//     [Limits].Line bytes each. Over HTTP, http_login.go finds out the caller and
//     http_post.go reads a body of that size; http_sse.go has the older transport, whose
//     answers come in another response. A WebSocket (http_socket.go) is a conversation
//     whose messages are lines.
//  2. wire/message.go checks the message: UTF-8, depth, duplicate keys, JSON-RPC shape.
//     If the message is refused, wire/ident.go finds the id for which its client waits.
//  3. receive.go registers the request with the guard of the connection or of the HTTP
//     session (guard.go), which knows the requests in flight: it gives the request an
//     internal id and refuses duplicates. Then receive.go asks the admission (limit.go),
//     which runs, queues or refuses the request. A modern request over HTTP has no guard; http_modern.go
//     asks the admission for it.
//  4. direct.go reads a call, and directlist.go the request for a plain list of tools, if
//     they have the form of the protocol. directrun.go answers them in a goroutine of the
//     connection or the session (workers.go), and http_modern.go answers a modern call over
//     HTTP in the goroutine of its request. Any other request goes to the go-sdk (sdk.go), which implements the
//     rest of the protocol.
//  5. call.go finds the tool, decodes the arguments strictly (decode.go), asks
//     the [Gate], and runs the handler. Every transport and [Server.Call] use it; there is no
//     other way to a tool, and none to a tool of an upstream (remote.go). In belljar, the
//     Gate is that of internal/server, which asks the [policies.Policy] that is loaded now.
//  6. direct.go writes the answer (frame.go, and method.go for a tool called as a method);
//     structured.go decides whether it has structured content. In answers of the go-sdk,
//     answer.go puts the client's own id back.
//  7. guard.go checks the size of the answer, and sends it to the request's outlet
//     (outlet.go), unless the client cancelled meanwhile: a line over stdio, and over HTTP
//     one JSON text or an event (package sse). http_modern.go does this for a modern request
//     over HTTP.
//
// # The files
//
// The way of a call leads down this list of files, each calling those below it:
//
//	the server, and the ways to it
//	  server.go                       the parts of the server, opened and ended
//	  http_link.go                    checks the login for a server in another process
//	  places.go                       several servers behind one handler
//	  stdio.go, http.go               the two ways in
//	  http_modern.go, http_legacy.go  Streamable HTTP, of each era
//	  http_sse.go, http_ticket.go     HTTP with SSE; WebSockets, and how pages log in
//	  http_socket.go, ticket.go
//	  http_session.go, http_kept.go   the session that a request names, or that is restored
//	  http_open.go                    how a session begins
//	  http_post.go, http_login.go     the body of a request, and its caller
//	  streams.go                      an answer that lasts as long as its client wants
//	  http_refuse.go                  how a request is refused
//	  conversation.go, lines.go       lines of messages
//
//	a message
//	  receive.go                      gets an id, and waits for its turn
//	  direct.go                       is read as a call,
//	  directlist.go                   or as a plain list of tools,
//	  directrun.go                    and answered in a goroutine;
//	  sdk.go, sdk_task.go             or is passed to the go-sdk, which knows all requests
//	  subscribe.go, listen.go         subscriptions
//	  suite.go, defer.go              calls whose answers their clients fetch later
//	  toollist.go                     the list of tools
//	  completion.go                   values that complete what a person types
//	  listing.go, prompt.go           other lists, prompts,
//	  resource.go, remoteresource.go  and resources, as the policy allows
//	  granted.go
//
//	a call
//	  call.go, prepare.go             passes the gate, runs and is answered
//	  confirm.go, ask.go, survey.go   the decision, and people who are asked for theirs
//	  elicit.go, approver.go
//	  meter.go                        counts the calls of a tenant
//	  around.go, redact.go, audit.go  what is done before and after the run of a tool
//	  refusal.go
//
//	an answer
//	  frame.go                        makes the frame, and turns a panic into an error
//	  deferwire.go, result.go         in the form of the wire
//	  method.go                       the answer to a tool called as a method
//	  input.go, form.go               a result that asks the client
//	  page.go, errors.go              pages of a list; our errors as errors of the sdk
//	  answer.go                       is sent under the client's own id
//
//	the base of all of these
//	  logs.go                         log messages for clients
//	  guard.go, outlet.go, inbox.go   the requests in flight of one client
//	  state.go, workers.go
//	  sessions.go, session.go         the sessions
//	  tasks.go, receipt.go, ids.go
//	  detach.go                       calls that continue without their callers, or are deferred
//	  sdk_request.go, structured.go   what a request states about its session and client
//	  served.go, trace.go             what logs and traces get about a request
//	  remotesearch.go                 a tool that finds the tools of an upstream
//	  layer.go, tool.go, toolset.go   the tools, and who sees them
//	  announcer.go, listchanges.go    and is notified of changes
//	  remote.go, definition.go        tools of upstreams, and their definitions
//	  remoteargs.go, rawresult.go     the arguments and the results of such tools
//	  listed.go, decode.go, gate.go
//	  kept.go                         the part of a session that is kept
//	  http_headers.go                 the headers of a request
//	  tenant.go, shared.go            limits of one tenant, and of all tenants together
//	  identity.go, limit.go           a caller; the requests that run and wait
//	  text.go
//
// One call goes up in the list: a session that has ended makes its server forget it,
// because the parts of the server keep something for each session.
//
// # The parts of a Server
//
// A [Server] only contains its parts and offers their work to the rest of the program:
//
//   - toolset: the tools, including those of upstreams, and which of them are hidden from
//     each tenant (toolset.go, toollist.go, remote.go)
//   - resources and prompts: the families and sources, their lists and pages
//     (resource.go, listing.go, prompt.go)
//   - callGate: the gate around a call: decode, decide, ask, record, run, redact
//     (call.go, granted.go, ask.go, audit.go, around.go, redact.go, trace.go). Its sealer
//     proves the states that modern clients carry from one call to the next (input.go)
//   - sessionTable and webSessions: the open sessions, and those over HTTP (sessions.go,
//     tenant.go, http_session.go, http_legacy.go, http_sse.go, http_socket.go)
//   - Tickets: logins of pages for one WebSocket each (ticket.go, http_ticket.go)
//   - subscriptions: the resources that clients watch (subscribe.go)
//   - deferrals: calls whose answers their clients fetch later (defer.go, listen.go)
//   - adapter: converts the go-sdk's requests into those of this package, and the answers
//     of this package into the sdk's (sdk.go)
//
// Each part has a mutex of its own, and no part locks that of another part while it holds
// its own, except that of sessionTable. While a part holds its mutex, it may lock the
// mutexes of what it keeps or uses: a toolset those of its listChanges and of the go-sdk;
// webSessions those of a Session and of Shared. A guard may lock that of its inbox and that
// of inFlight, and a Session that of its peer. None of these locks the mutex of a part.
//
// # Words
//
// A session is one conversation; it ends when its transport ends. An era is
// legacy (with initialize, revisions up to 2025-11-25) or modern (2026-07-28,
// no initialize, every request names its client). Errors are symbolic inside
// (wire/error.go) and get their code from the era's table at the edge. An upstream is
// another MCP server whose tools this one offers; package mcp/upstream runs it.
package mcp
