package front

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// writeWait is how long a client may take to read what was written to it.
const writeWait = 30 * time.Second

// client is a connection of a boundedListener until it is closed. Writes to it have a deadline:
// without that, a client that sends requests and reads no answers keeps a connection and a
// goroutine, even if it cannot log in.
type client struct {
	net.Conn
	leave func() // once

	mu  sync.Mutex // held while a deadline of writes is set
	own bool       // guarded by mu: the writer has set a deadline
}

// Write writes to the client.
func (c *client) Write(p []byte) (int, error) {
	if err := c.renewDeadline(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// renewDeadline sets the deadline of a write, unless the writer has set its own.
func (c *client) renewDeadline() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own {
		return nil
	}
	return c.Conn.SetWriteDeadline(time.Now().Add(writeWait))
}

// SetWriteDeadline sets the deadline of writes in place of ours; zero brings that back.
func (c *client) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own = !t.IsZero()
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline is SetWriteDeadline, for reads too.
func (c *client) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own = !t.IsZero()
	return c.Conn.SetDeadline(t)
}

// CloseWrite is for net/http: a client that still sends gets to read why its request was
// refused.
func (c *client) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection. Twice is fine.
func (c *client) Close() error {
	c.leave()
	return c.Conn.Close()
}

// flushBounded sends what is left of an answer over HTTP/2, within writeWait. There the client says
// how much of each stream it takes, beside the connection. A stream that is not taken would wait
// without a deadline. Meanwhile the request still counts among those of its address.
func flushBounded(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor < 2 {
		return
	}
	conn := http.NewResponseController(w)
	_ = conn.SetWriteDeadline(time.Now().Add(writeWait)) // a test's recorder has none
	_ = conn.Flush()                                     // net/http sees that the client is gone, too
}
