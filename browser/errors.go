package browser

import (
	"errors"
	"fmt"
	"strings"
)

// Kind is what went wrong with a call. It decides what its caller does next.
type Kind int

// The kinds of errors. Every Error has one.
const (
	// KindBroken is every other error: a fault of belljar or Chrome.
	KindBroken Kind = iota
	// KindAbsent: this host has no Chrome that can run here. Static reading works.
	KindAbsent
	// KindForbidden: the grant allows no browser.
	KindForbidden
	// KindRefused: the request was not made, since its URL or an option cannot be.
	KindRefused
	// KindUnreachable: the server was not reached, or the door did not let it: see
	// Error.Net.
	KindUnreachable
	// KindUnauthorized: the server asks for a user and a password.
	KindUnauthorized
	// KindBadTLS: the server's certificate is not valid for it.
	KindBadTLS
	// KindDownload: the URL leads to a file for the disk, and not to a page.
	KindDownload
	// KindCrashed: the page, or its Chrome, died, and did so again when the call was
	// tried once more.
	KindCrashed
	// KindTimedOut: nothing of the page was there when the time was up.
	KindTimedOut
	// KindFull: as many calls wait as may.
	KindFull
	// KindClosed: the Pool is closed.
	KindClosed
)

var kinds = [...]string{
	"broken", "absent", "forbidden", "refused", "unreachable", "unauthorized", "bad_tls", "download", "crashed", "timed_out", "full", "closed",
}

// String is the kind's name, for logs and for structured content.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kinds) {
		return fmt.Sprintf("kind(%d)", int(k))
	}
	return kinds[k]
}

// Error is why a page could not be read. Message is for the agent: what was wrong and
// what to do instead; Err is the cause, for the operator's log.
type Error struct {
	Kind    Kind
	Message string
	// Net is Chrome's name of a network error, such as net::ERR_CONNECTION_REFUSED,
	// where it gave one.
	Net string
	// URL is where it was met, if that is not the URL of the request.
	URL string
	Err error
}

// Error is the message with the cause behind it.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf is the kind of an error of this package, and KindBroken for any other.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return KindBroken
}

// clip returns text in one line, cut to most bytes.
func clip(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), most+4)], "?"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-3], "") + "..."
	}
	return text
}
