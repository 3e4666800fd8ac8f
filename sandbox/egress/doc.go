// Package egress is the only way out of a box.
//
// A box has a loopback of its own and nothing else. Its connections arrive at
// a [Door] on the host, which knows the name that was meant, asks the policy,
// resolves the name itself, looks at the address it is about to dial, and
// only then dials. Nothing is sent before the verdict, and what was judged is
// what is dialled: one [policies.Host] goes the whole way.
//
// The files, each calling those below it:
//
//	door.go                   a door, opened for a policy
//	proxy.go, relay.go        the two ways in
//	client.go, dial.go        the same way for belljar's own fetches
//	retry.go, intercept.go    TLS that goes through, or is opened at the door
//	http.go, websocket.go     requests, judged one by one and written anew;
//	body.go                   their bodies and answers
//	peek.go, splice.go        finds out what a connection is; passes bytes on unseen
//	dns.go                    names: the addresses that stand for them in a box
//	flow.go                   one connection under judgement
//	connect.go, resolve.go    from a name to a connection
//	accept.go                 what a door holds open
//	head.go, guard.go         the head of a request, and what is added to it
//	override.go, loans.go
//	secret.go, mask.go        secrets: added to requests, and kept out of answers
//	readings.go
//	opening.go, hello.go      what connections begin with
//	authority.go              the authority that only the box trusts
//	caps.go, allowance.go     limits
//	record.go, blocked.go     records of what was allowed and refused
//	table.go                  the names of a box
//	own.go, public.go         which addresses are public
//	address.go
//
// A connection is judged under one policy from its start to its end, even if
// [Door.Set] replaces the policy meanwhile.
package egress
