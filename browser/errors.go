package browser

import (
	"errors"
	"fmt"
	"strings"

	"belljar.dev/internal/printable"
)

// Kind is the kind of an error of a call. It decides what the caller does next.
type Kind int

// The kinds of errors. Every Error has one.
const (
	// KindBroken is every other error: a fault of belljar or Chrome.
	KindBroken Kind = iota
	// KindAbsent: no Chrome can run on this host. Static reading works.
	KindAbsent
	// KindForbidden: the grant allows no browser or no network, or too little for a browser.
	KindForbidden
	// KindRefused: the request was not made, since its URL or an option is not valid.
	KindRefused
	// KindUnreachable: the server was not reached, or the egress door refused the
	// connection; see Error.Net.
	KindUnreachable
	// KindUnauthorized: the server asks for a user and a password.
	KindUnauthorized
	// KindBadTLS: the server's certificate is not valid for the server.
	KindBadTLS
	// KindDownload: the URL leads to a file to be saved, and not to a page.
	KindDownload
	// KindCrashed: the page or its Chrome died, and died again when the call was tried once
	// more.
	KindCrashed
	// KindTimedOut: no browser was free, or no part of the page had arrived, when the time
	// was up or the call was given up.
	KindTimedOut
	// KindFull: no more calls may wait.
	KindFull
	// KindClosed: the Pool is closed.
	KindClosed
)

var kinds = [...]string{
	"broken", "absent", "forbidden", "refused", "unreachable", "unauthorized", "bad_tls", "download", "crashed", "timed_out", "full", "closed",
}

// String returns the kind's name, for logs and for structured content.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kinds) {
		return fmt.Sprintf("kind(%d)", int(k))
	}
	return kinds[k]
}

// Error says why a page could not be read. Message is for the agent: what was wrong and
// what to do instead; Err is the cause, for the operator's log.
type Error struct {
	Kind    Kind
	Message string
	// Net is Chrome's name of a network error, such as net::ERR_CONNECTION_REFUSED; it is
	// empty if Chrome named none.
	Net string
	// URL is the URL that failed, if that is not the URL of the request.
	URL string
	Err error
}

// Error returns the message, followed by the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func errClosed() error { return &Error{Kind: KindClosed, Message: "belljar is shutting down"} }

// KindOf returns the kind of an error of this package, and KindBroken for any other error.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return KindBroken
}

// clip returns text in one line, in which each character shows as itself: a page's text may
// come to a terminal. most is the number of bytes at which it is cut.
func clip(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if !printable.InLine(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), most+4)], "?"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-3], "") + "..."
	}
	return text
}
