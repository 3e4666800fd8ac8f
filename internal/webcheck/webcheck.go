package webcheck

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"
)

// Config describes the server that is checked.
type Config struct {
	URL       string         // URL of the endpoint, such as https://belljar.example/mcp
	Token     string         // token of a client; empty to check only as a stranger
	Roots     *x509.CertPool // authorities of the server's certificate; nil means those of the system
	Idle      time.Duration  // how long a stream without messages has to stay open
	AccessLog string         // the server's access log, if this process can read it; empty if not
}

// Verdict is the result of a check.
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"
	Wrong   Verdict = "WRONG"
	Unknown Verdict = "unknown" // the check could not be made
)

// Finding is the result of one check.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail"`
	Fix     string  `json:"fix,omitempty"` // what to do, if it is not ok
}

// Times that a server may take.
const (
	answerWait = 10 * time.Second
	firstByte  = 10 * time.Second // until the first byte of a stream
	slowWait   = 15 * time.Second // until a connection is closed whose headers do not arrive
)

// target is the server that is checked.
type target struct {
	Config
	at      *url.URL
	client  *http.Client
	login   bool   // a request without a token gets 401
	session string // session that the checks use; may be empty
}

// ErrURL is the error for a URL that is not the URL of a server.
var ErrURL = errors.New("want the URL of a server, such as https://belljar.example/mcp")

// Run checks a server. It returns an error if the server cannot be checked at all.
func Run(ctx context.Context, cfg Config) ([]Finding, error) {
	at, err := url.Parse(cfg.URL)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return nil, fmt.Errorf("%q: %w", cfg.URL, ErrURL)
	}
	t := &target{Config: cfg, at: at}
	t.client = t.newClient()
	defer t.client.CloseIdleConnections()
	if _, err := t.ask(ctx, request{method: http.MethodGet}); err != nil {
		if _, bad := errors.AsType[*certificateError](err); !bad {
			if tried, ok := errors.AsType[*url.Error](err); ok {
				err = tried.Err // tried.Err does not repeat the URL
			}
			return nil, fmt.Errorf("connect to %s: %w", at.Redacted(), err)
		}
	}
	checks := []func(context.Context) Finding{
		t.address, t.encryption, t.host, t.origin, t.preflight, t.strangers, t.metadata, t.wrongToken, t.tokenInURL, t.operatorsPaths, t.twoLengths,
		t.legacy, t.modern, t.largeBody, t.tooLargeBody, t.webSocket, t.forwarded,
	}
	slow := []func(context.Context) Finding{t.stream, t.slowHeaders} // made at the same time, because they take long
	found := make([]Finding, 0, len(checks)+len(slow))
	for _, check := range checks {
		found = append(found, check(ctx))
	}
	last := make([]Finding, len(slow))
	var waiting sync.WaitGroup
	for i, check := range slow {
		waiting.Go(func() { last[i] = check(ctx) })
	}
	waiting.Wait()
	t.leave(ctx)
	return append(found, last...), ctx.Err()
}

// found returns a finding. An empty fix means that the server does what is expected.
func found(check, fix, detail string, args ...any) Finding {
	f := Finding{Check: check, Verdict: OK, Detail: fmt.Sprintf(detail, args...), Fix: fix}
	if fix != "" {
		f.Verdict = Wrong
	}
	return f
}

// unknown returns the finding of a check that could not be made.
func unknown(check, fix, detail string, args ...any) Finding {
	return Finding{Check: check, Verdict: Unknown, Detail: fmt.Sprintf(detail, args...), Fix: fix}
}

// local reports whether the URL names this machine by a loopback address.
func (t *target) local() bool {
	ip, err := netip.ParseAddr(t.at.Hostname())
	return t.at.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}
