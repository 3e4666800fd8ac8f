// Package fleet lets one address serve the places of many machines. A front takes the
// requests of clients and sends each to the worker that has its place. It knows
// http.Handler and nothing of what is served: internal/server has the login before it and
// the places behind it.
//
// The link between the two goes this way:
//
//  1. The worker connects to the front. Both show certificates of the fleet's authority
//     (TLS 1.3); without one, no byte of a connection is read beyond the handshake.
//  2. The worker sends one line, its hello: its name, which its certificate must cover, and
//     a number of this process. The front sends one line back, which may be a refusal.
//  3. From now on the connection is HTTP/2, and the worker is its server. The front asks
//     for the worker's state, a stream that lasts as long as the link: the places that the
//     worker has, and whether it drains.
//  4. The front sends requests of clients. It puts the place and the caller into two
//     headers, which it removes from what clients send.
//  5. A client that goes away resets its stream, which cancels the request. A link that
//     ends cancels nothing: the channel of [Detached] is closed before the contexts of its
//     requests end.
//
// A place belongs to the worker that has its directory. A place that no worker has is
// claimed first, see package claims; then the worker makes it.
//
// The files, each calling those below it:
//
//	front.go               one request: from its body to its answer
//	places.go, move.go     places that move from one worker to another, to a file, and back
//	policy.go              the policy that an operator gives to the whole fleet
//	cleanup.go             what moves have left at workers
//	unclaimed.go           places that workers have and nobody has claimed
//	drives.go              what a front works on at once, and the numbers of moves
//	resolve.go             the worker that has a place, or gets it
//	ask.go                 what a front asks workers for itself
//	answer.go              the answer, also in the place of a worker that is gone
//	stream.go              the same for an answer that is a stream
//	events.go              a stream as whole events
//	headers.go, message.go what goes from one end to the other, and what a front knows of it
//	audits.go              the audit logs of all workers, compared with what others keep of them
//	roster.go, state.go    the workers that are there, and what they say of themselves
//	give.go                the policy of the fleet for a worker that has an older one
//	witness.go             has other workers keep what one has signed
//	rendezvous.go          the same choice at all fronts
//	worker.go, dial.go     the other end
//	workerpolicy.go        what a worker does with a policy of the fleet
//	workeraudit.go         what a worker does for the audit logs of others
//	steps.go               what a worker does of a move
//	pace.go                bounds of the stream of a place
//	link.go, tune_linux.go a connection of both ends, and its hello
//	credentials.go         certificates
//	inflight.go            requests that have begun and not ended
//	keys.go, signed.go     keys and checkpoints of audit logs
//	shares.go              what one user may have of something that has a bound
package fleet
