package fleet

import "sync"

// coalesced is a link whose front sends a request as one piece. net/http writes the header of a
// request and its body one after the other, which are two records of TLS, two calls of the kernel,
// and two times that the worker is woken.
//
// A header that has a body behind it waits for the next write, whatever that is: the body, which is
// in memory for a request of a client, or the end of a request that was cancelled. Where nothing is
// written, such as for a place that is packed before its first bytes come, the next ping sends it,
// after pingAfter of silence.
type coalesced struct {
	*conn

	mu   sync.Mutex
	held []byte // guarded by mu: the header of a request
}

// maxCoalesced is how long a header may be that waits.
const maxCoalesced = 4 << 10

// Write writes to the worker.
func (c *coalesced) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held)+len(p) <= maxCoalesced && beginsBody(p) {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	if len(c.held) == 0 {
		return c.conn.Write(p)
	}
	before := len(c.held)
	n, err := c.conn.Write(append(c.held, p...))
	c.held = c.held[:0]
	return max(0, n-before), err
}

// beginsBody reports whether a text is one frame of HTTP/2 with a whole header, which has a body
// behind it (RFC 9113, 4.1 and 6.2).
func beginsBody(p []byte) bool {
	const head, headers, endStream, endHeaders = 9, 0x1, 0x1, 0x4
	return len(p) >= head && p[3] == headers && p[4]&(endStream|endHeaders) == endHeaders &&
		int(p[0])<<16|int(p[1])<<8|int(p[2]) == len(p)-head
}
