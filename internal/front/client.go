package front

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// writeWait is how long a client may take to read what was written to it.
const writeWait = 30 * time.Second

// client is a connection of a boundedListener until it is closed. Writes to it have a
// deadline. Without the deadline, a client that sends requests and reads no answers would
// keep a connection and a goroutine, even if it cannot log in.
type client struct {
	net.Conn
	leave func() // counts the connection as closed, once

	mu  sync.Mutex // held while the write deadline is set
	own bool       // guarded by mu: whether the writer has set its own deadline
}

// Write writes to the client.
func (c *client) Write(p []byte) (int, error) {
	if err := c.renewDeadline(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// renewDeadline sets the deadline of a write, unless the writer has set its own deadline.
func (c *client) renewDeadline() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own {
		return nil
	}
	return c.Conn.SetWriteDeadline(time.Now().Add(writeWait))
}

// SetWriteDeadline sets the deadline of writes, in place of the usual one. A zero time
// restores the usual deadline.
func (c *client) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own = !t.IsZero()
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline is SetWriteDeadline for writes and reads.
func (c *client) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own = !t.IsZero()
	return c.Conn.SetDeadline(t)
}

// CloseWrite is for net/http: a client that is still sending can then read why its request
// was refused.
func (c *client) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection. It may be called several times.
func (c *client) Close() error {
	c.leave()
	return c.Conn.Close()
}

// flushBounded sends the rest of an answer over HTTP/2 within writeWait. In HTTP/2, the
// client decides how many bytes of each stream it accepts, in addition to those of the
// connection. A stream that is not accepted would wait without a deadline. Meanwhile the
// request still counts for its address.
func flushBounded(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor < 2 {
		return
	}
	conn := http.NewResponseController(w)
	_ = conn.SetWriteDeadline(time.Now().Add(writeWait)) // the recorder of a test has no deadline
	_ = conn.Flush()                                     // net/http notices too that the client has gone
}
