// Package upstreams contains MCP servers over stdio. They are for the tests of code that
// connects to other people's servers. Some servers behave well, and others misbehave in
// every way that was seen or can be imagined.
//
// A Server is data: its lists and answers, and Rules for messages that it handles in
// another way. The zero Server behaves well and has one tool, echo. Misbehaving returns a
// server for each kind of misbehaviour, for tests that try all kinds.
//
// A test runs a server in its own process, over pipes in memory:
//
//	p := upstreams.Server{Rules: upstreams.On("initialize")}.Start(t) // never answers initialize
//
// or as a process, which can also fork, leave its session and ignore signals:
//
//	argv := upstreams.Server{Rules: upstreams.On(upstreams.Started, upstreams.Daemon())}.Command(t)
//
// The process is the test binary, so its TestMain must call Main first.
//
// The files, each calling those below it:
//
//	misbehaving.go  the kinds of misbehaviour by their names
//	peer.go         a server in the process of a test
//	pipe.go         its pipes
//	process.go      a server as a process
//	serve.go        one conversation: which rule applies, and what its acts do
//	child.go        the processes that a server starts
//	answer.go       what a well-behaved server answers
//	server.go       Server, Rule, Act and Tool
package upstreams
