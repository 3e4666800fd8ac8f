// Package fleet lets one address serve the places of many machines. A front takes the
// requests of clients and sends each to the worker that has its place. It uses
// http.Handler and knows nothing of what is served: internal/server has the login before
// the front and the places behind the workers.
//
// The link between a front and a worker works like this:
//
//  1. The worker connects to the front. Both present certificates of the fleet's authority
//     (TLS 1.3). Without a certificate, no byte of a connection is read after the handshake.
//  2. The worker sends one line, its hello: its name, which its certificate must cover, and
//     a random text of this process, and the number of the link. The front sends one line
//     back, which may be a refusal.
//  3. From now on the connection is HTTP/2, and the worker is its server. The front requests
//     the worker's state, a stream that lasts as long as the link: the places that the
//     worker has, and whether it drains.
//  4. The front sends requests of clients. It adds the place and the caller in two headers,
//     which it removes from the requests of clients.
//  5. A client that disconnects resets its stream, which cancels the request. A link that
//     ends cancels nothing: the channel of [Detached] is closed before the contexts of its
//     requests end.
//  6. If the front is far away (see conn.long), the worker makes a second connection to the
//     same address, the bulk connection of the link. Over it go requests of clients of more
//     than 64 KiB, the streams of moves, and each write of more than 64 KiB of an answer to a
//     client. All else goes over the first connection. When one of the two ends, both ends
//     close the other.
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
//	unclaimed.go           places that workers have without a claim
//	drives.go              the moves that a front makes at the same time, and their numbers
//	resolve.go             the worker that has a place, or gets a new one
//	ask.go                 requests of a front itself to workers
//	answer.go              the answer, also in place of a worker that is lost
//	stream.go              the same for an answer that is a stream
//	events.go              a stream as whole events
//	headers.go, message.go headers that are passed on, and what a front knows of a message
//	audits.go              the audit logs of all workers, compared with the checkpoints of others
//	roster.go, state.go    the workers that are linked, and their states
//	give.go                the policy of the fleet for a worker that has an older one
//	witness.go             sends checkpoints of one worker to others, which keep them
//	rendezvous.go          the choice of a worker, the same at all fronts
//	worker.go, dial.go     the end of a link at a worker, and its connections
//	workerpolicy.go        a policy of the fleet at a worker
//	workeraudit.go         the checkpoints of other workers at a worker
//	steps.go               the steps of a move at a worker
//	pace.go                bounds of the stream of a place
//	link.go                the link of one worker, at a front
//	parts.go               answers whose large parts go over the bulk connection
//	conn.go                a connection of a link, and its hello
//	tailprobe.go           a small frame after the last one of a message
//	interleave.go          frames of several answers, in turn
//	socket_linux.go        the TCP connection below TLS
//	credentials.go         certificates
//	inflight.go            requests that have begun but not ended
//	keys.go, signed.go     keys and checkpoints of audit logs
//	shares.go              the part of a bounded resource that one user may have
package fleet
