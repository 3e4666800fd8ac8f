package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"belljar.dev/internal/printable"
	"belljar.dev/mcp/wire"
)

// Errors that callers distinguish.
var (
	// ErrClosed is returned for calls after Close.
	ErrClosed = errors.New("the connection to the server is closed")
	// ErrEnded is returned for calls after the server has ended the connection.
	ErrEnded = errors.New("the server has ended the connection")
	// ErrProbe is returned by Open if the server ended after the request server/discover.
	// Such a server may work if Config.Era is Legacy.
	ErrProbe = errors.New("the server ended after the request server/discover")
	// ErrSession is returned for calls after a server over HTTP has forgotten the session.
	ErrSession = errors.New("the server no longer knows the session")
	// ErrBusy is returned for a call if too many calls are open.
	ErrBusy = errors.New("too many calls to the server are open")
	// ErrTimeout is wrapped by a *TimeoutError.
	ErrTimeout = errors.New("the server did not answer in time")
	// ErrLoop is returned for a call that has passed too many belljar servers.
	ErrLoop = errors.New("the call has passed through too many servers: a server seems to be its own upstream")
)

// TimeoutError is the error of a call that the server did not answer in time. It contains
// how active the server was meanwhile.
type TimeoutError struct {
	Method  string
	After   time.Duration
	Heard   int // number of other messages of the server since the request, such as answers to other calls
	Unasked int // number of answers to no open request since the connection was opened; they were dropped
}

// Error names the method that was not answered, and says what the server sent instead.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s: %v, within %v: %s", e.Method, ErrTimeout, e.After, e.Meanwhile())
}

// Unwrap returns ErrTimeout.
func (e *TimeoutError) Unwrap() error { return ErrTimeout }

// Meanwhile returns a text about what the server sent instead of the answer.
func (e *TimeoutError) Meanwhile() string {
	text := "meanwhile it sent nothing that could be used"
	switch {
	case e.Heard == 1:
		text = "meanwhile it sent one other message"
	case e.Heard > 1:
		text = fmt.Sprintf("meanwhile it sent %d other messages", e.Heard)
	}
	if e.Unasked > 0 {
		text += fmt.Sprintf("; since the connection began, it sent %d answers whose ids match no open request, which were dropped", e.Unasked)
	}
	return text
}

// Error is the error that a server answered a request with, as the server wrote it.
type Error struct {
	Code    int64
	Message string
	Data    json.RawMessage // nil if the error has no data
}

// Error returns the server's message.
func (e *Error) Error() string { return e.Message }

// The codes that Open understands (MCP 2026-07-28, basic/index, error codes).
const (
	codeHeaderMismatch    = -32020
	codeMissingCapability = -32021
	codeUnsupported       = -32022 // unsupported revision
)

// isModern reports whether only servers of the modern era answer with this error.
func (e *Error) isModern() bool {
	return e.Code == codeHeaderMismatch || e.Code == codeMissingCapability || e.Code == codeUnsupported
}

// readError parses the member "error" of an answer.
func readError(raw []byte) *Error {
	e := &Error{Code: wire.InternalError.Code(wire.Legacy)}
	if !wire.IsObject(raw) {
		e.Message = "the server answered with an error that is not an object: " + excerpt(raw, mostShown)
		return e
	}
	wire.Members(raw, func(name, value []byte) bool {
		switch string(name) {
		case "code":
			if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
				e.Code = n
			}
		case "message":
			e.Message = wire.Text(value)
		case "data":
			e.Data = value
		}
		return true
	})
	if e.Message == "" {
		e.Message = "the server answered with an error without a message: " + excerpt(raw, mostShown)
	}
	return e
}

// StatusError is the error for an HTTP response that is not an answer.
type StatusError struct {
	Status    int      // HTTP status, such as 401
	Challenge []string // the headers WWW-Authenticate
	Text      string   // the beginning of the body, without control characters
}

// Error contains the status and the text.
func (e *StatusError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("the server answered with HTTP status %d", e.Status)
	}
	return fmt.Sprintf("the server answered with HTTP status %d: %s", e.Status, e.Text)
}

// mostShown is how many bytes of a foreign text an error contains.
const mostShown = 200

// Shown returns a text in the form in which Tail.Lines shows it, without cutting it.
func Shown(text string) string { return excerpt([]byte(text), len(text)) }

// excerpt returns the beginning of a server's text, in a form that fits in one line of a
// terminal. most is the largest number of bytes of the text. The excerpt does not end
// within a character.
func excerpt(text []byte, most int) string {
	cut := len(text) > most
	if cut {
		text = printable.TrimEnd(text[:most])
	}
	var b strings.Builder
	w := printable.NewWriter(&b)
	_, _ = w.Write(text) // a strings.Builder never fails
	_ = w.Flush()
	line := strings.NewReplacer("\n", "^J", "\t", " ").Replace(b.String())
	if cut {
		line += "…"
	}
	return line
}
