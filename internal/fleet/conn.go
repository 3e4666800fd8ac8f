package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// protocol is the name of the link in the handshake of TLS (ALPN).
const protocol = "belljar-link/1"

// Headers of a request on a link. A front removes every header that begins with
// headerPrefix from the requests of clients and from the answers of workers.
const (
	headerPrefix = "Belljar-"
	PlaceHeader  = "Belljar-Place"     // place of the request
	CallerHeader = "Belljar-Caller"    // caller, in a form that the handlers at both ends agree on
	notBegun     = "Belljar-Not-Begun" // see MarkNotStarted
)

// MarkNotStarted marks a refusal of a worker that is stopping: no part of the request was
// run, so the front may send it to the next process of the worker.
func MarkNotStarted(answer http.Header) { answer.Set(notBegun, "1") }

// Paths of requests that a front sends over a link on its own behalf, not for a client.
const (
	statePath = "/link/state"
	claimPath = "/link/claim"
)

// Times of a link. An end that does not answer for pingAfter + pingWait counts as lost. A bulk
// connection waits longer, bulkWait: on a link whose queue is full, an idle connection often
// loses a ping and its repetition, and sends nothing else from which the kernel would learn of
// the loss. If the other end is lost, the first connection shows it.
const (
	pingAfter = 500 * time.Millisecond // time of silence before a ping
	pingWait  = time.Second
	bulkWait  = 5 * time.Second // pingWait of a bulk connection
	helloWait = 5 * time.Second // time for the handshake and the hello
	writeWait = 10 * time.Second
)

// Bounds of one connection of a link.
const (
	maxHello   = 4 << 10
	maxStreams = 8192      // number of requests at the same time
	maxHeader  = 64 << 10  // size of the headers of one request or answer, in bytes
	maxBuffer  = 256 << 10 // unread bytes of one stream

	// maxUnread bounds the unread bytes in all streams of a connection. It has room for all
	// requests that one tenant may have, so a client that does not read its answers does
	// not stop the answers of other tenants.
	maxUnread = maxFlights / tenantPart * maxBuffer
	// maxUnreadBodies bounds the unread bytes of request bodies on a connection. It has room for
	// all bytes that a front buffers.
	maxUnreadBodies = maxBodies
)

// hello is the first message of each connection.
type hello struct {
	Name     string `json:"name"`
	Process  string `json:"process"`           // random text, different for each process
	Link     uint64 `json:"link,omitempty"`    // number of the link, different for each link of the process
	Bulk     bool   `json:"bulk,omitempty"`    // whether this is the bulk connection of that link
	Fronts   int    `json:"fronts"`            // number of fronts to which the worker connects
	Version  string `json:"version,omitempty"` // version of the program
	Protocol int    `json:"protocol"`
}

// welcome is the answer of a front.
type welcome struct {
	Refused string `json:"refused,omitempty"` // why the front refuses the link; empty if it accepts it
	Bulk    bool   `json:"bulk,omitempty"`    // whether the front accepts bulk connections; earlier versions do not send it
}

// helloProtocol is the version of the protocol on a link. bulkProtocol is that of a bulk
// connection. A front that does not know bulk connections must refuse one, or it would take it
// for a link: behind one address there may be several fronts, of several versions.
const (
	helloProtocol = 1
	bulkProtocol  = 2
)

// conn is one connection of a link. If it breaks, conn records its end before its reader or
// writer gets the error.
type conn struct {
	net.Conn

	turns turns     // at a worker, the order of its answers; at a front, only whether the connection is slow
	tail  tailProbe // shows the loss of the last packet
	first *conn     // at a worker, the first connection of the link whose bulk connection this is; nil for a first connection

	bulkAnswers bulkAnswers // at a worker, answers in parts

	endOnce    sync.Once
	lost       chan struct{} // closed when this connection has ended
	detachOnce sync.Once
	detached   chan struct{} // closed when its requests are to continue without their callers

	asked        atomic.Bool // whether the front has requested the state of the worker
	acknowledged Signed      // guarded by Worker.mu: newest checkpoint that the front has
}

func newConn(c net.Conn) *conn {
	l := &conn{Conn: c, lost: make(chan struct{}), detached: make(chan struct{})}
	l.tail.late = l.late
	return l
}

// Read reads from the other end.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.end()
	}
	return n, err
}

// Write writes to the other end. After the end of the connection it writes nothing: a request
// that continues without its caller may return, and that must not look like the end of a whole
// answer.
func (c *conn) Write(p []byte) (int, error) {
	if closed(c.lost) {
		return 0, net.ErrClosed
	}
	c.tail.mu.Lock()
	defer c.tail.mu.Unlock()
	began := time.Now()
	n, err := c.Conn.Write(p)
	c.tail.wrote(p[:n])
	if len(p) > maxUrgent { // less does not wait for room, so it shows nothing
		c.turns.wrote(time.Since(began))
	}
	if err != nil {
		c.end()
	}
	return n, err
}

// Close ends the connection. It may be called several times.
func (c *conn) Close() error {
	c.end()
	err := c.Conn.Close()
	c.tail.end()
	return err
}

// hangUp is Close without the close_notify of TLS: it does not wait, and sends nothing more.
func (c *conn) hangUp() {
	c.end()
	raw := c.Conn
	if over := c.overTLS(); over != nil {
		raw = over.NetConn()
	}
	raw.Close()
}

// end records that the connection has ended. It detaches the requests first: if lost is closed,
// detached is closed too. The end of a bulk connection is the end of the first one as well,
// because writing large parts of answers fails from now on.
func (c *conn) end() {
	if c.first != nil {
		c.first.end()
	}
	c.detach()
	c.endOnce.Do(func() { close(c.lost) })
}

// detach makes the requests of the connection continue without their callers.
func (c *conn) detach() { c.detachOnce.Do(func() { close(c.detached) }) }

// closed reports whether a channel is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// connKey is the key of the connection in the context of a request on a link.
type connKey struct{}

// connOf returns the connection over which a request arrived; nil if it did not arrive over a
// link.
func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}

// Detached returns a channel that is closed when a request that arrived over a link must
// continue without its caller: the link has ended, or the worker is stopping and does not
// wait for its requests any longer. After that, the end of the request's context does not
// mean that the caller gave up. The channel is nil for a request that did not arrive over a
// link.
func Detached(ctx context.Context) <-chan struct{} {
	if c := connOf(ctx); c != nil {
		return c.detached
	}
	return nil
}

// send writes one line of the hello or the welcome, before the link uses HTTP/2.
func send(c net.Conn, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = c.Write(append(text, '\n'))
	return err
}

// receive reads one line, and no byte after it.
func receive(c net.Conn, v any) error {
	line := make([]byte, 0, 256)
	var one [1]byte
	for len(line) < maxHello {
		if _, err := c.Read(one[:]); err != nil {
			return err
		}
		if one[0] == '\n' {
			// without DisallowUnknownFields: a newer version may send more fields
			if err := json.Unmarshal(line, v); err != nil {
				return fmt.Errorf("the first line of a link: %w", err)
			}
			return nil
		}
		line = append(line, one[0])
	}
	return errors.New("the first line of a link is too long")
}
