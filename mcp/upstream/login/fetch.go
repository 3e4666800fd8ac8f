package login

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"belljar.dev/mcp/wire"
)

// Bounds of a document.
const (
	maxDocument  = 64 << 10 // most bytes of a document
	maxDepth     = 16
	maxRedirects = 3
	fetchTime    = 15 * time.Second
)

var errLarge = fmt.Errorf("it has more than %d bytes", maxDocument)

// errNoClient is a mistake of this program: the request would be made by a client that may
// dial any address.
var errNoClient = errors.New("a login needs the client that makes its requests")

// fetcher makes all requests of a login, with the client of the caller.
type fetcher struct{ reads, sends http.Client }

// newFetcher returns a fetcher that uses a client. For documents it follows at most three
// redirects, within one origin. Requests that are sent are not redirected, since they
// contain secrets.
func newFetcher(client *http.Client) (*fetcher, error) {
	if client == nil || client.Transport == nil {
		return nil, errNoClient
	}
	transport := bounded{client.Transport}
	return &fetcher{
		reads: http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if origin(r.URL) != origin(via[0].URL) {
				return fmt.Errorf("it redirects to another host, %s", show(r.URL.Host))
			}
			if len(via) > maxRedirects {
				return fmt.Errorf("it redirects more than %d times", maxRedirects)
			}
			return nil
		}},
		sends: http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// errAbsent is wrapped by the error for a document that a server does not have.
var errAbsent = errors.New("there is no such document")

// document reads a JSON document from a URL into a value.
func (f *fetcher) document(ctx context.Context, from *url.URL, into any) error {
	ctx, stop := context.WithTimeout(ctx, fetchTime)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	resp, err := f.reads.Do(r)
	if err != nil {
		return fmt.Errorf("%s: %w", show(from.String()), withoutURL(err))
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode/100 == 4:
		return fmt.Errorf("%s: HTTP status %d: %w", show(from.String()), resp.StatusCode, errAbsent)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: HTTP status %d", show(from.String()), resp.StatusCode)
	}
	if err := decode(resp.Body, into); err != nil {
		return fmt.Errorf("%s: %w", show(from.String()), err)
	}
	return nil
}

// send sends a request, and returns the response without following a redirect. The caller
// closes the response's body.
func (f *fetcher) send(r *http.Request) (*http.Response, error) {
	resp, err := f.sends.Do(r)
	if err != nil {
		return nil, withoutURL(err)
	}
	return resp, nil
}

// decode reads one JSON object.
func decode(body io.Reader, into any) error {
	var b bytes.Buffer
	if _, err := b.ReadFrom(body); err != nil {
		return err
	}
	if wire.CheckJSON(b.Bytes(), maxDepth) != nil || json.Unmarshal(b.Bytes(), into) != nil {
		return errors.New("it is not a valid JSON object with the members that it must have")
	}
	return nil
}

// withoutURL returns an error of package http without its URL, whose query may contain a
// secret.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// bounded is a transport whose responses have bounded bodies.
type bounded struct{ base http.RoundTripper }

// RoundTrip makes a request.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.base.RoundTrip(r)
	if err == nil {
		resp.Body = &limited{ReadCloser: resp.Body, left: maxDocument}
	}
	return resp, err
}

// limited is a body that fails after its bound.
type limited struct {
	io.ReadCloser
	left int
}

func (l *limited) Read(p []byte) (n int, err error) {
	n, err = l.ReadCloser.Read(p[:min(len(p), l.left+1)])
	if l.left -= n; l.left < 0 {
		return 0, errLarge
	}
	return n, err
}
