// Package egress is the only way out of a box.
//
// A box has a loopback of its own and nothing else. What it connects to
// arrives at a [Door] on the host, which knows the name that was meant, asks
// the policy, resolves the name itself, looks at the address it is about to
// dial, and only then dials. Nothing is sent before the verdict, and what was
// judged is what is dialled: one [policies.Host] goes the whole way.
//
//	door.go, flow.go      a door, what it holds open, one connection under judgement
//	table.go, dns.go      names: the addresses that stand for them in a box
//	address.go, own.go    which addresses are public
//	resolve.go, dial.go   from a name to a connection
//	relay.go, proxy.go    the two ways in
//	opening.go, hello.go, what a connection begins with
//	retry.go
//	head.go, http.go,     requests, judged one by one and written anew;
//	body.go               their bodies and answers
//	intercept.go,         TLS opened at the door, with an authority that only
//	authority.go          the box trusts
//	secret.go, mask.go    secrets: added to requests, and kept out of answers
//	splice.go             bytes that are passed on without a look
//	caps.go, record.go,   limits; records of what was allowed and refused
//	blocked.go
//	client.go             the same way for belljar's own fetches
//
// A connection is judged under one policy from its start to its end, even if
// [Door.Set] replaces the policy meanwhile.
package egress
