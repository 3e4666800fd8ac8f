package browser

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
)

// The DevTools protocol over Chrome's debugging pipe: JSON messages, each followed by a
// NUL. Chrome trusts any process that has the pipe, and its pages can put a lot of data
// into what it sends, so every read here is bounded.

const (
	// maxMessage bounds one message of Chrome, in bytes. A longer message is skipped: if it
	// is an answer, its call fails; if it is an event, the event is lost.
	maxMessage = 64 << 20
	// writePatience is how long Chrome may leave its end of the pipe full.
	writePatience = 5 * time.Second
)

// jsonOptions allow what pages may contain: half of a surrogate pair.
var jsonOptions = jsonv2.JoinOptions(jsonv2.DefaultOptionsV2(), jsonv2.AllowInvalidUTF8(true))

// protocolError is a command that Chrome answered with an error.
type protocolError struct {
	Method  string `json:"-"`
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *protocolError) Error() string { return e.Method + ": " + e.Message }

// errGone means that the pipe has ended: Chrome died, or was ended. Commands that wait for
// an answer then fail with this error.
var errGone = errors.New("the browser's pipe has ended")

// conn is the connection to one Chrome.
type conn struct {
	in  *os.File // from Chrome
	out *os.File // to Chrome

	writing sync.Mutex // held while one message is written

	mu       sync.Mutex
	last     int64
	waiting  map[int64]chan message // channels of the callers that wait for an answer
	sessions map[string]func(method string, params []byte)
	err      error // why the connection has ended

	done chan struct{} // closed when the connection has ended
}

// message is one message of Chrome: an answer or an event.
type message struct {
	ID        int64          `json:"id"`
	SessionID string         `json:"sessionId"`
	Method    string         `json:"method"`
	Params    jsonv2.Value   `json:"params"`
	Result    jsonv2.Value   `json:"result"`
	Error     *protocolError `json:"error"`
}

// newConn returns a connection that owns both files. The caller must run serve and close
// the connection.
func newConn(in, out *os.File) *conn {
	return &conn{
		in: in, out: out, waiting: map[int64]chan message{}, done: make(chan struct{}),
		sessions: map[string]func(string, []byte){},
	}
}

// serve handles the messages of Chrome until the pipe ends.
func (c *conn) serve() {
	r := bufio.NewReaderSize(c.in, 64<<10)
	var err error
	for err == nil {
		var text []byte
		if text, err = readMessage(r, maxMessage); err == nil {
			c.dispatch(text)
		} else if errors.Is(err, errTooLong) {
			c.skipped(text)
			err = nil
		}
	}
	c.end(err)
}

var errTooLong = errors.New("message too long")

// readMessage reads up to the next NUL. If the length of a message exceeds most, in bytes,
// it reads the whole message and returns its beginning, and errTooLong.
func readMessage(r *bufio.Reader, most int) ([]byte, error) {
	var text []byte
	over := false
	for {
		part, err := r.ReadSlice(0)
		switch {
		case over:
		case len(text)+len(part) > most:
			over = true
			text = append(text[:min(len(text), 256)], part[:min(len(part), 256)]...)
		default:
			text = append(text, part...)
		}
		switch {
		case err == nil && over:
			return text, errTooLong
		case err == nil:
			return text[:len(text)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func (c *conn) dispatch(text []byte) {
	var m message
	if err := jsonv2.Unmarshal(text, &m, jsonOptions); err != nil {
		return // Chrome sends no such message; each caller that waits has a deadline
	}
	if m.ID != 0 {
		c.answer(m)
		return
	}
	c.mu.Lock()
	hear := c.sessions[m.SessionID]
	c.mu.Unlock()
	if hear != nil {
		hear(m.Method, m.Params)
	}
}

func (c *conn) answer(m message) {
	c.mu.Lock()
	to := c.waiting[m.ID]
	delete(c.waiting, m.ID)
	c.mu.Unlock()
	if to != nil {
		to <- m // there is room: a command is answered once
	}
}

// skipped fails the call whose answer was too long. In such a message, the number comes
// first.
func (c *conn) skipped(head []byte) {
	digits, ok := bytes.CutPrefix(head, []byte(`{"id":`))
	if !ok {
		return
	}
	if i := bytes.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = digits[:i]
	}
	if id, err := strconv.ParseInt(string(digits), 10, 64); err == nil {
		c.answer(message{ID: id, Error: &protocolError{Message: fmt.Sprintf("the answer has more than %d bytes", maxMessage)}})
	}
}

// end makes all waiting calls fail.
func (c *conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
		c.err = errGone
	} else {
		c.err = fmt.Errorf("%w: %w", errGone, err)
	}
	close(c.done)
}

// close ends the connection. It may be called twice.
func (c *conn) close() {
	c.end(nil)
	c.in.Close()
	c.out.Close()
}

// listen makes hear handle the events of a session; hear must not block. With a nil hear,
// the events are dropped from then on. The empty session is the browser's own.
func (c *conn) listen(session string, hear func(method string, params []byte)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if hear == nil {
		delete(c.sessions, session)
		return
	}
	c.sessions[session] = hear
}

// command is a command as it is sent.
type command struct {
	ID        int64  `json:"id"`
	Method    string `json:"method"`
	Params    any    `json:"params,omitempty"`
	SessionID string `json:"sessionId,omitempty"`
}

// send sends a command and returns its number and the channel for its answer.
func (c *conn) send(session, method string, params any) (int64, <-chan message, error) {
	answer := make(chan message, 1)
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return 0, nil, c.err
	}
	c.last++
	id := c.last
	c.waiting[id] = answer
	c.mu.Unlock()
	text, err := jsonv2.Marshal(command{id, method, params, session}, jsonOptions)
	if err == nil {
		err = c.write(append(text, 0))
	}
	if err != nil {
		c.forget(id)
		return 0, nil, fmt.Errorf("%s: %w", method, err)
	}
	return id, answer, nil
}

func (c *conn) write(text []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.out.SetWriteDeadline(time.Now().Add(writePatience)); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	if _, err := c.out.Write(text); err != nil {
		c.end(err) // half a message may be in the pipe
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

func (c *conn) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// pending is a command that was sent; R is the type of its answer.
type pending[R any] struct{ sending }

// sending is a pending for any type of answer. Its methods are compiled once, and not once
// for each R.
type sending struct {
	c      *conn
	id     int64
	answer <-chan message
	method string
	err    error
}

// begin sends a command to a session and does not wait for its answer. A
// caller that does not want the answer drops it.
func begin[P, R any](c *conn, session string, cmd cdp.Command[P, R], params P) pending[R] {
	id, answer, err := c.send(session, cmd.Method, params)
	return pending[R]{sending{c, id, answer, cmd.Method, err}}
}

// drop gives up the answer, if the command was sent.
func (p sending) drop() {
	if p.answer != nil {
		p.c.forget(p.id)
	}
}

// wait waits for the answer.
func (p pending[R]) wait(ctx context.Context) (R, error) {
	m, err := p.message(ctx)
	if err != nil {
		var none R
		return none, err
	}
	return p.read(m)
}

// message waits for the message with the answer.
func (p sending) message(ctx context.Context) (m message, err error) {
	if p.err != nil {
		return m, p.err
	}
	select {
	case m = <-p.answer:
	case <-ctx.Done():
		p.c.forget(p.id)
		return m, fmt.Errorf("%s: %w", p.method, context.Cause(ctx))
	case <-p.c.done:
		select {
		case m = <-p.answer: // the answer came before the end
		default:
			p.c.forget(p.id)
			return m, fmt.Errorf("%s: %w", p.method, p.c.err)
		}
	}
	return m, nil
}

// read returns the result of an answer.
func (p pending[R]) read(m message) (R, error) {
	var result R
	err := p.decode(m, &result)
	return result, err
}

// decode reads an answer into result.
func (p sending) decode(m message, result any) error {
	if m.Error != nil {
		m.Error.Method = p.method
		return m.Error
	}
	if len(m.Result) > 0 {
		if err := jsonv2.Unmarshal(m.Result, result, jsonOptions); err != nil {
			return fmt.Errorf("%s: read answer: %w", p.method, err)
		}
	}
	return nil
}

// call sends a command to a session and waits for its answer.
func call[P, R any](ctx context.Context, c *conn, session string, cmd cdp.Command[P, R], params P) (R, error) {
	return begin(c, session, cmd, params).wait(ctx)
}
