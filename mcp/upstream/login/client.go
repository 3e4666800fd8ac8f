package login

import (
	"errors"
	"io"
	"net/http"
)

// HTTPClient returns the configuration's client with a transport that puts the token into
// each request to the server. If the server refuses a request with status 401, the request
// is made once more with a new token. The error is a *NeededError if that token is refused
// too, or if no new token can be obtained.
func (s *Source) HTTPClient() *http.Client {
	c := s.client
	c.Transport = authorized{s, c.Transport}
	return &c
}

// authorized is the transport of the client that HTTPClient returns.
type authorized struct {
	source *Source
	base   http.RoundTripper
}

// RoundTrip makes a request. For a response with status 401 it returns an error, which
// http.RoundTripper does not require: so callers need not find out which of many requests
// ended a login.
func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	s := a.source
	// The token is only for this server, and not for a host that it redirects to.
	if origin(r.URL) != origin(s.remote.URL) || r.Header.Get("Authorization") != "" {
		return a.base.RoundTrip(r)
	}
	ctx := r.Context()
	token, err := s.Token(ctx)
	if err != nil && !errors.Is(err, ErrNone) { // without a login the request is made as it is: the server may need none
		closeBody(r)
		return nil, err
	}
	resp, err := a.send(r, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	challenge := finish(resp)
	next, err := s.Refused(ctx, token)
	if err != nil {
		return nil, withChallenge(err, challenge)
	}
	again := r.Clone(ctx)
	if r.Body != nil {
		if r.GetBody == nil {
			return nil, errors.New("the server refused the token, and belljar has renewed it: make the call again")
		}
		if again.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	resp, err = a.send(again, next)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	// The login is forgotten; otherwise each call would renew the token.
	challenge = finish(resp)
	if err := s.book.drop(ctx, s.server, next); err != nil {
		return nil, err
	}
	return nil, &NeededError{s.server.Name, challenge, errRefused}
}

// send makes a request with a token; without one if it is zero.
func (a authorized) send(r *http.Request, t Token) (*http.Response, error) {
	if !t.IsZero() {
		r = r.Clone(r.Context()) // a transport must not change the request
		t.SetHeader(r.Header)
	}
	return a.base.RoundTrip(r)
}

// withChallenge adds the challenge of the server to an error.
func withChallenge(err error, challenge []string) error {
	if needed, ok := errors.AsType[*NeededError](err); ok {
		return &NeededError{needed.Name, challenge, needed.cause}
	}
	return err
}

// finish ends a response with status 401, and returns its challenge.
func finish(resp *http.Response) []string {
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again
	resp.Body.Close()
	return resp.Header.Values("Www-Authenticate")
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}
