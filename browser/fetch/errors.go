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

// Kind is what went wrong.
type Kind int

// The kinds of errors. Every Error has one.
const (
	KindBroken      Kind = iota // none of the others: a fault of belljar
	KindURL                     // the URL or an option makes no sense
	KindClosed                  // the grant lets nothing out, or the Fetcher is closed
	KindRefused                 // the egress door did not let it through: see Error.Refused
	KindRobots                  // robots.txt keeps it from robots, and the policy wants that respected
	KindBusy                    // the host was asked too often, by us
	KindName                    // the name has no address
	KindUnreachable             // no connection
	KindTLS                     // the certificate is not valid for the host
	KindAuth                    // the server asks who we are
	KindLimited                 // the server asks to come back later
	KindLoop                    // redirects without an end
	KindTimeout                 // the time was up before there was anything
	KindProtocol                // what the server sent is no HTTP, or not packed as it says
	KindType                    // what the server has is nothing to read
	KindPacked                  // it is packed as nobody asked for, which a browser may read
)

var kinds = [...]string{
	"broken", "url", "closed", "refused", "robots", "busy", "name", "unreachable", "tls", "auth", "limited", "loop", "timeout", "protocol", "type", "packed",
}

// String is the kind's name, for logs and for structured content.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kinds) {
		return fmt.Sprintf("kind(%d)", int(k))
	}
	return kinds[k]
}

// Error is why a page could not be read. Message and Instead are for the agent; Err is
// the cause, for the operator's log.
type Error struct {
	Kind      Kind
	Message   string // which side said no, and why; without a full stop
	Instead   string // one thing that can be done; may be empty
	URL       string // where it was met, if that is not the URL of the request
	Type      string // the media type, of KindType
	Profile   string // of KindClosed
	Retry     time.Duration
	Refused   *egress.Refused
	Redirects []Redirect // on the way there
	Err       error
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

// parse reads a URL as the policy does, and lets only those through that are
// fetched.
func parse(s string) (*url.URL, error) {
	if len(s) > MaxURL {
		return nil, &Error{Kind: KindURL, Message: fmt.Sprintf("the URL has %d bytes, more than %d", len(s), MaxURL), Instead: "shorten it"}
	}
	if scheme, _, ok := strings.Cut(s, ":"); ok {
		switch strings.ToLower(strings.TrimSpace(scheme)) {
		case "http", "https":
		case "file":
			return nil, &Error{Kind: KindURL, Message: "file: is not a page of a server", Instead: "read files of the box with Bash, and images with ReadImage"}
		default:
			return nil, &Error{
				Kind: KindURL, Message: fmt.Sprintf("only http and https are read, not %s:", policies.Clip(scheme, 40)),
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

// explain puts a request that got no answer into words.
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
			e.Kind, e.Message = KindProtocol, fmt.Sprintf("what %s answered is not understood: %s", host, policies.Clip(err.Error(), 200))
		}
		e.Instead = "try another source"
	}
	return e
}

// explainTLS puts a connection that cannot be trusted into words.
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
		why = "is signed by nobody that this machine trusts"
	} else if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		why = "cannot be verified"
	}
	switch {
	case why != "":
		e.Message = fmt.Sprintf("the certificate of %s %s, so what it sends could be anybody's", host, why)
	case errors.As(err, &alert), errors.As(err, &record):
		e.Message = fmt.Sprintf("the server %s does not speak TLS with us: %s", host, policies.Clip(err.Error(), 120))
	default:
		return false
	}
	e.Kind, e.Instead = KindTLS, "tell the person you work for, or use another source; there is no way to read it all the same"
	return true
}
