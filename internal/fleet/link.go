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
// headerPrefix from what clients send, and from what workers answer.
const (
	headerPrefix = "Belljar-"
	PlaceHeader  = "Belljar-Place"     // the place of the request
	CallerHeader = "Belljar-Caller"    // the caller, in a form that the two handlers agree on
	notBegun     = "Belljar-Not-Begun" // see MarkNotStarted
)

// MarkNotStarted marks a refusal of a worker that is stopping: no part of the request ran, so the
// front may send it to the next process of the worker.
func MarkNotStarted(answer http.Header) { answer.Set(notBegun, "1") }

// Paths of requests that a front sends over a link on its own behalf, not for a client.
const (
	statePath = "/link/state"
	claimPath = "/link/claim"
)

// Times of a link. An end that does not answer is gone after pingAfter + pingWait.
const (
	pingAfter = 500 * time.Millisecond // of silence
	pingWait  = time.Second
	helloWait = 5 * time.Second // for the handshake and the hello
	writeWait = 10 * time.Second
)

// Bounds of a link.
const (
	maxHello   = 4 << 10
	maxStreams = 8192      // requests at once
	maxHeader  = 64 << 10  // of one request or answer
	maxBuffer  = 256 << 10 // of one stream that its reader does not read

	// maxUnread bounds the bytes that wait unread in all streams of a link. It has room
	// for those of all requests that one tenant may have, so a client that does not read its
	// answers does not stop the answers of other tenants.
	maxUnread = maxFlights / tenantPart * maxBuffer
	// maxUnreadBodies bounds the bytes of request bodies that wait unread on a link. All that a
	// front buffers fits.
	maxUnreadBodies = maxBodies
)

// hello is what a worker says first.
type hello struct {
	Name     string `json:"name"`
	Process  string `json:"process"`           // another one for each start
	Fronts   int    `json:"fronts"`            // to which the worker connects
	Version  string `json:"version,omitempty"` // of the program
	Protocol int    `json:"protocol"`
}

// welcome is the answer of a front.
type welcome struct {
	Refused string `json:"refused,omitempty"` // why the front does not take the link
}

// helloProtocol is the version of what is said on a link.
const helloProtocol = 1

// conn is a connection of a link. If the connection breaks, conn records the end of the link
// before its reader or writer gets the error.
type conn struct {
	net.Conn

	endOnce    sync.Once
	lost       chan struct{} // closed when the link has ended
	detachOnce sync.Once
	detached   chan struct{} // closed when its requests go on without their callers

	asked        atomic.Bool // the front has asked for the state of the worker
	acknowledged Signed      // guarded by Worker.mu: the newest checkpoint that the front knows
}

func newConn(c net.Conn) *conn {
	return &conn{Conn: c, lost: make(chan struct{}), detached: make(chan struct{})}
}

// Read reads from the other end.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.end()
	}
	return n, err
}

// Write writes to the other end.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.end()
	}
	return n, err
}

// Close ends the link. Twice is fine.
func (c *conn) Close() error {
	c.end()
	return c.Conn.Close()
}

// end records that the link has ended. It detaches the requests first, so that whoever sees
// lost closed sees detached closed, too.
func (c *conn) end() {
	c.detach()
	c.endOnce.Do(func() { close(c.lost) })
}

// detach tells the requests of the link to go on without their callers.
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

// Detached returns a channel that is closed when a request that came over a link is to go
// on without its caller: the link has ended, or the worker is stopping and waits for its
// requests no longer. After that, the end of the request's context does not mean that the
// caller gave up. The channel is nil for a request that did not come over a link.
func Detached(ctx context.Context) <-chan struct{} {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		return c.detached
	}
	return nil
}

// send writes one line of the hello and the welcome, before the link speaks HTTP/2.
func send(c net.Conn, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = c.Write(append(text, '\n'))
	return err
}

// receive reads one line, and no byte beyond it.
func receive(c net.Conn, v any) error {
	line := make([]byte, 0, 256)
	var one [1]byte
	for len(line) < maxHello {
		if _, err := c.Read(one[:]); err != nil {
			return err
		}
		if one[0] == '\n' {
			if err := json.Unmarshal(line, v); err != nil { // without DisallowUnknownFields: a newer end may say more
				return fmt.Errorf("the first line of a link: %w", err)
			}
			return nil
		}
		line = append(line, one[0])
	}
	return errors.New("the first line of a link is too long")
}
