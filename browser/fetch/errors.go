package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
)

// Kind is the kind of an error.
type Kind int

// The kinds of errors. Every Error has one.
const (
	KindBroken      Kind = iota // any other error: a fault of belljar
	KindURL                     // the URL or an option is not valid
	KindClosed                  // the grant allows no network, or the Fetcher is closed
	KindRefused                 // the egress door refused the connection: see Error.Refused
	KindRobots                  // robots.txt forbids the page, and the policy wants that respected
	KindBusy                    // belljar has asked the host too often
	KindName                    // the name has no address
	KindUnreachable             // no connection was made
	KindTLS                     // the certificate is not valid for the host
	KindAuth                    // the server requires authentication
	KindLimited                 // the server asks to come back later
	KindLoop                    // redirects without an end
	KindTimeout                 // the time was up before any part of the page came
	KindProtocol                // the answer is not valid HTTP, or is not packed as it says
	KindType                    // the answer has a type that is not read, or is an image that is too large
	KindPacked                  // the answer has an encoding that was not asked for, which a browser may read
)

var kinds = [...]string{
	"broken", "url", "closed", "refused", "robots", "busy", "name", "unreachable", "tls", "auth", "limited", "loop", "timeout", "protocol", "type", "packed",
}

// String returns the kind's name, for logs and for structured content.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kinds) {
		return fmt.Sprintf("kind(%d)", int(k))
	}
	return kinds[k]
}

// Error says why a page could not be read. Message and Instead are for the agent; Err is
// the cause, for the operator's log.
type Error struct {
	Kind      Kind
	Message   string // which side refused, and why; without a full stop
	Instead   string // one thing that the agent can do; may be empty
	URL       string // URL that failed; it may be empty if that is the URL of the request
	Type      string // media type of the answer, for KindType
	Profile   string // profile of the call, for KindClosed
	Retry     time.Duration
	Refused   *egress.Refused
	Redirects []Redirect // redirects before the error
	Err       error
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

// parse reads a URL as the policy does, and refuses a URL that is not fetched.
func parse(s string) (*url.URL, error) {
	if len(s) > MaxURL {
		return nil, &Error{Kind: KindURL, Message: fmt.Sprintf("the URL has %d bytes, more than %d", len(s), MaxURL), Instead: "shorten it"}
	}
	if scheme, _, ok := strings.Cut(s, ":"); ok {
		switch strings.ToLower(strings.TrimSpace(scheme)) {
		case "http", "https":
		case "file":
			return nil, &Error{Kind: KindURL, Message: "a file: address is not a page of a server", Instead: "read files of the box with Bash, and images with ReadImage"}
		default:
			return nil, &Error{
				Kind: KindURL, Message: fmt.Sprintf("only http: and https: addresses are read, not %s:", policies.Clip(scheme, 40)),
				Instead: "name the page that shows it, with https://",
			}
		}
	}
	u, err := policies.ParseURL(s)
	if err != nil {
		return nil, &Error{Kind: KindURL, Message: fmt.Sprintf("the URL %s cannot be used: %v", policies.Clip(s, 200), err), Instead: "write the whole URL, for example https://example.org/a/page"}
	}
	u.Fragment, u.RawFragment = "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}

// explain returns the error of a request that got no answer, with a message for the agent.
func explain(ctx context.Context, u *url.URL, err error) error {
	e := &Error{Kind: KindBroken, URL: u.String(), Err: err}
	host := u.Host
	if refused, ok := errors.AsType[*egress.Refused](err); ok {
		e.Kind, e.Refused, e.Message = KindRefused, refused, refused.Error()
		return e
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.DeadlineExceeded):
		e.Kind, e.Message = KindTimeout, fmt.Sprintf("the server %s did not answer before the time was up", host)
		e.Instead = "try again with a larger timeout_ms, or another source"
		return e
	case cause != nil:
		return cause
	}
	if explainTLS(e, host, err) {
		return e
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		e.Kind, e.Message = KindName, fmt.Sprintf("the name %s has no address", u.Hostname())
		e.Instead = "check its spelling; WebSearch finds where a page is now"
		if !name.IsNotFound {
			e.Message = fmt.Sprintf("the name %s could not be looked up", u.Hostname())
			e.Instead = "try again in a moment"
		}
		return e
	}
	switch timeout, ok := errors.AsType[net.Error](err); {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Kind, e.Message = KindUnreachable, fmt.Sprintf("nothing answers at %s: the connection was refused", host)
		e.Instead = "check the port, or try another source"
	case ok && timeout.Timeout():
		e.Kind, e.Message = KindTimeout, fmt.Sprintf("the server %s did not answer in time", host)
		e.Instead = "try again later, or another source"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		e.Kind, e.Message = KindUnreachable, fmt.Sprintf("the server %s closed the connection without an answer", host)
		e.Instead = "try again later, or another source"
	case errors.Is(err, egress.ErrClosed):
		e.Kind, e.Message = KindClosed, "belljar is ending"
	default:
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			e.Kind, e.Message = KindUnreachable, fmt.Sprintf("no connection to %s could be made", host)
		} else {
			e.Kind, e.Message = KindProtocol, fmt.Sprintf("the answer of %s cannot be understood: %s", host, policies.Clip(err.Error(), 200))
		}
		e.Instead = "try another source"
	}
	return e
}

// explainTLS sets the message for a connection that cannot be trusted, and reports whether
// err is such an error.
func explainTLS(e *Error, host string, err error) bool {
	why := ""
	var alert tls.AlertError
	var record tls.RecordHeaderError
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		why = "is not valid"
		if invalid.Reason == x509.Expired && invalid.Cert != nil {
			why = fmt.Sprintf("is valid from %s to %s only", invalid.Cert.NotBefore.Format(time.DateOnly), invalid.Cert.NotAfter.Format(time.DateOnly))
		}
	} else if _, ok := errors.AsType[x509.HostnameError](err); ok {
		why = "is for other names"
	} else if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		why = "is not signed by an authority that this machine trusts"
	} else if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		why = "cannot be verified"
	}
	switch {
	case why != "":
		e.Message = fmt.Sprintf("the certificate of %s %s, so its answer could come from anybody", host, why)
	case errors.As(err, &alert), errors.As(err, &record):
		e.Message = fmt.Sprintf("the TLS handshake with the server %s failed: %s", host, policies.Clip(err.Error(), 120))
	default:
		return false
	}
	e.Kind, e.Instead = KindTLS, "tell the person you work for, or use another source; do not read it without the check of its certificate"
	return true
}
