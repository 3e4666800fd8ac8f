package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// explain returns the error, for the agent, of a call whose page did not load.
func (t *tab) explain(ctx context.Context, err error, r Request) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	t.mu.Lock()
	doc, failure, download := t.doc, t.failure, t.download
	t.mu.Unlock()
	at := doc.url
	if at == r.URL {
		at = ""
	}
	switch n, ok := errors.AsType[*netError](err); {
	case download != "":
		return &Error{Kind: KindDownload, URL: at, Err: err, Message: fmt.Sprintf(
			"the address leads to a download (%s), not to a page, so nothing was read; fetch it with curl in Bash if the profile allows that", download)}
	case ok:
		return t.netFault(n.name, at, doc)
	case errors.Is(err, errHung):
		return &Error{Kind: KindCrashed, URL: at, Err: err, Message: "the browser did not answer; call again"}
	case errors.Is(err, errCrashed):
		return &Error{Kind: KindCrashed, URL: at, Err: err, Message: "the page crashed its browser, which ran out of memory or has a fault; read another page, or read this one without a browser"}
	case errors.Is(err, errGone), errors.Is(err, sandbox.ErrClosed):
		return &Error{Kind: KindCrashed, URL: at, Err: err, Message: "the browser died while it loaded the page; call again"}
	case failure != "" && errors.Is(err, context.DeadlineExceeded) && !t.hasDocument():
		return t.netFault(failure, at, doc)
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		why := "the server sent no page in time"
		if t.hasDocument() {
			why = "the scripts of the page left no time to read it"
		}
		return &Error{Kind: KindTimedOut, URL: at, Err: err, Message: why + "; call again with a longer timeout_ms, or read another page"}
	}
	return &Error{Kind: KindBroken, URL: at, Err: err, Message: "the browser could not load the page"}
}

// netFault returns an error of Chrome's network.
func (t *tab) netFault(name, at string, doc document) *Error {
	e := &Error{Kind: KindUnreachable, Net: name, URL: at, Err: &netError{name}}
	if line := t.door(doc.url); line != "" && (strings.Contains(name, "TUNNEL") || strings.Contains(name, "PROXY") || strings.Contains(name, "EMPTY") || strings.Contains(name, "RESET")) {
		e.Message = line
		return e
	}
	switch {
	case name == "net::ERR_ABORTED" && (doc.status == http.StatusNoContent || doc.status == http.StatusResetContent):
		e.Message = fmt.Sprintf("the server answered %d, so no page can be read", doc.status)
	case name == "net::ERR_ABORTED":
		// A load that is known to be a file has its own text. A load also ends like this if
		// a process of the browser was lost.
		e.Message = "the load was aborted: the address may lead to a download, or the browser failed; call again, or read another page"
	case strings.HasPrefix(name, "net::ERR_CERT"), strings.HasPrefix(name, "net::ERR_SSL"), name == "net::ERR_BAD_SSL_CLIENT_AUTH_CERT":
		e.Kind = KindBadTLS
		e.Message = fmt.Sprintf("the server's certificate or its TLS is not valid (%s), so nothing was read; do not read it without this check, look for the page at another address", strings.TrimPrefix(name, "net::"))
	case name == "net::ERR_TOO_MANY_REDIRECTS":
		e.Message = "the address redirects in a circle, so no page can be read"
	case name == "net::ERR_UNSAFE_REDIRECT", name == "net::ERR_UNSAFE_PORT", name == "net::ERR_DISALLOWED_URL_SCHEME", name == "net::ERR_UNKNOWN_URL_SCHEME":
		e.Kind = KindRefused
		e.Message = "the address leads to one that browsers do not open (" + strings.TrimPrefix(name, "net::") + ")"
	case name == "net::ERR_INVALID_AUTH_CREDENTIALS", name == "net::ERR_UNEXPECTED_PROXY_AUTH":
		e.Kind = KindUnauthorized
		e.Message = "the server asks for a user and a password, and pages are read without a login"
	default:
		e.Message = fmt.Sprintf("the server was not reached (%s); check the address, or read another page", strings.TrimPrefix(name, "net::"))
	}
	return e
}

// refusal returns an error if the answer is not a page.
func (t *tab) refusal(r Request) error {
	t.mu.Lock()
	doc := t.doc
	t.mu.Unlock()
	at := doc.url
	if at == r.URL {
		at = ""
	}
	switch {
	case doc.status == http.StatusUnauthorized && doc.headers["Www-Authenticate"] != "":
		scheme, _, _ := strings.Cut(doc.headers["Www-Authenticate"], " ")
		return &Error{Kind: KindUnauthorized, URL: at, Message: fmt.Sprintf("the server asks for a user and a password (%s), and pages are read without a login; look for a public address of it", clip(scheme, 40))}
	case doc.status == http.StatusForbidden && doc.headers["X-Content-Type-Options"] == "nosniff" && doc.headers["Connection"] == "close":
		if line := t.door(doc.url); line != "" {
			return &Error{Kind: KindUnreachable, URL: at, Message: line}
		}
	}
	return nil
}

// door returns the line, for the agent, with which the egress door refused connections to
// the host of a URL, or "".
func (t *tab) door(raw string) string { return doorLine(t.ch.box, raw) }

func doorLine(box *sandbox.Box, raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	host, err := policies.ParseHost(u.Hostname())
	if err != nil {
		return ""
	}
	records, _ := box.Blocked(0)
	for _, r := range slices.Backward(records) {
		if r.Host == host || r.Addr.IsValid() && r.Addr.Addr().Unmap() == host.Addr() {
			return r.Refusal()
		}
	}
	return ""
}
