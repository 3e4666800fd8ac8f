// Package upstream runs other people's MCP servers and lets calls use them.
//
// A [Pool] has the servers of one configuration. A server runs in instances: one for each
// session, principal or tenant, as the policy says, and never one for two tenants. An
// instance begins with the first call or list that needs it and ends when it is idle, when
// its entry is taken away, or with the pool. The pool neither starts a program nor speaks the
// protocol: a [Starter] does the first, in a box, and a [Dialer] the second.
//
//   - pool.go has the servers and their instances: Do, Gather, Set, Restart, Close.
//   - instance.go is one instance: the goroutine that starts it again and again.
//   - state.go is the state machine of an instance. It has no clock and no lock.
//   - status.go reports the state of an instance, to people and to the agent whose call needs
//     it.
//   - server.go has the types that a pool is made of: servers, a Starter, a Dialer.
//
// # Rules
//
//   - One goroutine belongs to each instance that is not at rest, and the pool waits for it.
//   - Only that goroutine starts and ends the server, so two starts of one instance cannot
//     run at the same time, and a server is gone before its successor starts.
//   - Every start counts against the budget of the instance: a server that fails at once
//     cannot be started in a loop, however many callers need it and however often.
//   - No goroutine holds a lock while a program starts, answers or ends.
package upstream
