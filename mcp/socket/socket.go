package socket

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"belljar.dev/internal/pause"
)

// Code is the reason why a Conn is closed (RFC 6455, 7.4.1). The codes from 4000 on are
// belljar's own.
type Code int

// The codes that callers pass to Close, or with which a Conn closes itself.
const (
	GoingAway   Code = 1001
	Violation   Code = 1002
	Unsupported Code = 1003 // a message of type binary
	NotText     Code = 1007 // a text message that is not valid UTF-8
	Policy      Code = 1008
	TooLarge    Code = 1009
	Internal    Code = 1011
	TryLater    Code = 1013
	NoLogin     Code = 4001
)

const (
	// A client that vanishes without closing is noticed at most pingEvery and pongWait later.
	pingEvery = 20 * time.Second
	pongWait  = 10 * time.Second
	// writeWait is how long a client may take to read what was written to it.
	writeWait = 30 * time.Second
	// maxFragments is how many frames may make up a message. Browsers split large messages.
	// A frame of one byte costs the reader more than its sender.
	maxFragments = 1024
	// maxReason is how many bytes of text a close frame can contain.
	maxReason = 123
	// The sizes of the buffers that a Conn keeps between messages, in bytes. They are small
	// because many Conns may be idle. Data that does not fit is read or written without a
	// buffer.
	readBuffer  = 1 << 10
	writeBuffer = 2 << 10
	spareBuffer = 4 << 10 // largest beginning of a message that Write keeps a buffer for
)

// Limits bound what a client sends.
type Limits struct {
	Message int           // most bytes of a message
	Whole   time.Duration // longest time from a message's first frame to its last
	First   time.Duration // longest time until the first message
}

// Conn is a WebSocket. One goroutine may call Read and another one Write; Close may be
// called at any time, and makes both return. A Conn must be closed.
type Conn struct {
	conn   *websocket.Conn
	limits Limits
	ctx    context.Context //nolint:containedctx // used for all reads and writes; it does not end, but the Conn is closed
	first  *time.Timer     // closes a Conn that gets no message in time
	alive  sync.WaitGroup  // counts running pings
	line   []byte          // beginning of a message that Write has got

	mu    sync.Mutex
	pings *time.Timer // guarded by mu: begins the next ping
	over  bool        // guarded by mu: no ping begins any more
}

// Accept accepts the WebSocket that a request asks for, with a subprotocol that the client
// offers. The caller must have checked Origin. If Accept fails, it has sent the answer.
func Accept(rw http.ResponseWriter, r *http.Request, protocol string, l Limits) (*Conn, error) {
	conn, err := websocket.Accept(hijacker{rw}, r, &websocket.AcceptOptions{
		Subprotocols:       []string{protocol},
		InsecureSkipVerify: true, // the library knows neither our names nor those of proxies
		// With compression, a few bytes could become a large message, and an attacker whose
		// text is compressed together with secrets could guess them from the length.
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(int64(l.Message))
	c := &Conn{conn: conn, limits: l, ctx: context.WithoutCancel(r.Context())}
	c.first = time.AfterFunc(l.First, func() { c.end(Policy, "no message arrived") })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pings = time.AfterFunc(pause.Together(pingEvery), c.ping)
	return c, nil
}

// hijacker passes a connection to the library with smaller buffers than those of net/http.
type hijacker struct{ http.ResponseWriter }

// Hijack takes the connection from net/http. The buffer contains the bytes that the client
// has sent right after its request.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early, err := both.Reader.Peek(both.Reader.Buffered())
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	in := bufio.NewReaderSize(bytes.NewReader(early), max(readBuffer, len(early)))
	if _, err := in.Peek(len(early)); err != nil { // after these bytes the library reads from conn
		conn.Close()
		return nil, nil, err
	}
	return conn, bufio.NewReadWriter(in, bufio.NewWriterSize(conn, writeBuffer)), nil
}

// ping closes the Conn of a client that does not answer. Between pings only a timer exists,
// and no goroutine.
func (c *Conn) ping() {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return
	}
	c.alive.Add(1)
	c.mu.Unlock()
	defer c.alive.Done()
	ctx, cancel := context.WithTimeout(c.ctx, pongWait)
	defer cancel()
	if err := c.conn.Ping(ctx); err != nil {
		c.end(Policy, "no pong arrived within "+pongWait.String())
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.pings.Reset(pause.Together(pingEvery))
	}
}

// Read returns the next message. The error is io.EOF if the client has closed the Conn.
func (c *Conn) Read() ([]byte, error) {
	kind, r, err := c.conn.Reader(c.ctx)
	if err != nil {
		return nil, c.broken(err)
	}
	c.first.Stop()
	late := time.AfterFunc(c.limits.Whole, func() { c.end(Policy, "the message did not arrive in time") })
	defer late.Stop()
	if kind != websocket.MessageText {
		return nil, c.refuse(Unsupported, "send each message as text")
	}
	message, err := c.whole(r)
	switch {
	case err != nil:
		return nil, err
	case !utf8.Valid(message):
		return nil, c.refuse(NotText, "the message is not UTF-8")
	}
	return message, nil
}

// whole reads a message to its end.
func (c *Conn) whole(r io.Reader) ([]byte, error) {
	b := make([]byte, 0, readBuffer)
	for fragments := 0; fragments <= maxFragments; {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(2*cap(b), c.limits.Message+2)), b...)
		}
		room := cap(b) - len(b)
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, c.broken(err)
		case n < room: // the library fills the buffer, except at the end of a frame
			fragments++
		}
	}
	return nil, c.refuse(Policy, fmt.Sprintf("the message has more than %d frames", maxFragments))
}

// refuse closes the Conn because of what its client sent.
func (c *Conn) refuse(code Code, reason string) error {
	c.end(code, reason)
	return fmt.Errorf("close the WebSocket with %d: %s", code, reason)
}

// broken returns the error of a read that failed. The client may have sent bytes that are
// not a frame; in most cases the library has already answered that.
func (c *Conn) broken(err error) error {
	switch code := websocket.CloseStatus(err); {
	case code == websocket.StatusNormalClosure, code == websocket.StatusGoingAway, code == websocket.StatusNoStatusRcvd:
		return io.EOF
	case errors.Is(err, websocket.ErrMessageTooBig):
		return c.refuse(TooLarge, fmt.Sprintf("the message has more than %d bytes", c.limits.Message))
	case code == -1:
		return c.refuse(Violation, "the data are not frames of a WebSocket")
	}
	return fmt.Errorf("read from the WebSocket: %w", err)
}

// Write sends each line as a message, without its line feed. Bytes after the last line feed
// are kept until Write gets the rest of their line. A Conn whose client does not read is
// closed.
func (c *Conn) Write(lines []byte) (int, error) {
	for rest := lines; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		if len(c.line) > 0 || !whole {
			c.line = append(c.line, line...)
			line = c.line
		}
		if !whole {
			break
		}
		ctx, cancel := context.WithTimeout(c.ctx, writeWait)
		err := c.conn.Write(ctx, websocket.MessageText, line)
		cancel()
		if err != nil {
			return 0, err
		}
		rest, c.line = after, c.line[:0]
		if cap(c.line) > spareBuffer {
			c.line = nil
		}
	}
	return len(lines), nil
}

// Close sends the client a close frame, waits a few seconds for its answer, and ends the
// Conn. If the Conn has closed itself before, or another Close has, nothing more is sent.
// Every Close waits for the end.
func (c *Conn) Close(code Code, reason string) {
	c.first.Stop()
	c.end(code, reason)
	c.mu.Lock()
	c.over = true
	c.pings.Stop()
	c.mu.Unlock()
	c.alive.Wait()
}

// end closes the Conn like Close, and does not wait for the pings.
func (c *Conn) end(code Code, reason string) {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}
	_ = c.conn.Close(websocket.StatusCode(code), reason) // fails if the client is gone, which does not matter
}
