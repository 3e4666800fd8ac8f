package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"belljar.dev/internal/printable"
)

// NeededError is the error of a request if a person must log in first.
type NeededError struct {
	Name string // name of the server
	// Challenge contains the headers WWW-Authenticate of the server's refusal; nil if no
	// request was sent.
	Challenge []string
	cause     error
}

// Error says which command to run.
func (e *NeededError) Error() string {
	return fmt.Sprintf("the server %s requires a login (%v): run `belljar upstream login %s`", show(e.Name), e.cause, printable.Operand(e.Name))
}

// Unwrap returns the reason.
func (e *NeededError) Unwrap() error { return e.cause }

// Reasons why a login is needed.
var (
	errRefused = errors.New("it does not accept the token of the last login")
	errEnded   = errors.New("the last login has ended")
)

// SourceConfig is the configuration of a Source.
type SourceConfig struct {
	Client *http.Client // required: makes the requests to the server and to the authorization server
	Book   *Book        // required
	Server Server
}

// Source returns the access tokens of one login, and renews them. Its methods are safe for
// concurrent use, and it needs no Close. Several Sources may use the same login.
type Source struct {
	book   *Book
	fetch  *fetcher
	client http.Client
	server Server
	remote remote
}

// NewSource returns a Source for a server. It reads nothing.
func NewSource(cfg SourceConfig) (*Source, error) {
	f, err := newFetcher(cfg.Client)
	if err != nil {
		return nil, err
	}
	s, err := cfg.Server.normal()
	if err != nil {
		return nil, err
	}
	at, err := parseServer(s.URL)
	if err != nil {
		return nil, err
	}
	return &Source{book: cfg.Book, fetch: f, client: *cfg.Client, server: s, remote: at}, nil
}

// Token returns the access token for a request that is made now. The error is a
// *NeededError if a person must log in. If ctx ends during a renewal, Token still completes
// and writes the renewal, for at most 15 seconds: a renewal that was not written could
// never be repeated.
func (s *Source) Token(ctx context.Context) (Token, error) { return s.tokenExcept(ctx, Token{}) }

// Refused returns a token in place of the token t, which the server does not accept. If the
// login cannot be renewed, it is removed.
func (s *Source) Refused(ctx context.Context, t Token) (Token, error) { return s.tokenExcept(ctx, t) }

// tokenExcept returns an access token that is not the refused one.
func (s *Source) tokenExcept(ctx context.Context, refused Token) (t Token, err error) {
	good := func(r row) bool {
		return !r.access.is(refused) && (r.renew.IsZero() || s.book.kept.Now().Before(r.renew))
	}
	// A token that ends soon may be used while another caller renews it.
	usable := func(r row) bool {
		return !r.access.is(refused) && (r.expires.IsZero() || s.book.kept.Now().Before(r.expires))
	}
	err = s.book.watch.Until(ctx, s.server.row(), claimFor, func() (done bool, err error) {
		r, err := s.book.find(ctx, s.server)
		switch {
		case err != nil:
			return false, err
		case good(r) || r.refresh.IsZero() && usable(r) || r.claimed > s.book.kept.Now().UnixMilli() && usable(r):
			t = r.access
			return true, nil
		case r.refresh.IsZero() && r.access.is(refused):
			if err := s.book.drop(ctx, s.server, refused); err != nil {
				return false, err
			}
			return false, errRefused
		case r.refresh.IsZero():
			return false, errEnded
		}
		r, ours, err := s.book.claim(ctx, s.server, good)
		switch {
		case err != nil:
			return false, err
		case good(r):
			t = r.access
			return true, nil
		case !ours:
			return false, nil
		}
		t, err = s.renewed(context.WithoutCancel(ctx), r, usable(r))
		return err == nil, err
	})
	switch {
	case errors.Is(err, ErrNone) || errors.Is(err, errSealed) || errors.Is(err, errEnded) || errors.Is(err, errRefused):
		return Token{}, &NeededError{Name: s.server.Name, cause: err}
	case err != nil:
		return Token{}, fmt.Errorf("the login at the server %s: %w", show(s.server.Name), err)
	case t.IsZero():
		return Token{}, fmt.Errorf("the login at the server %s: another process should renew it, and has not done so within %v", show(s.server.Name), claimFor)
	}
	return t, nil
}

// renewed renews a login that the caller has claimed. usable reports whether the old token
// can still be used.
func (s *Source) renewed(ctx context.Context, r row, usable bool) (Token, error) {
	next, err := s.fetch.refreshed(ctx, *r.grant, s.book.kept.Now())
	if refused, ok := errors.AsType[*refusal](err); ok && refused.lasting() {
		if err := s.book.settle(ctx, s.server, r, nil); err != nil {
			return Token{}, err
		}
		return Token{}, fmt.Errorf("%w: %w", errEnded, err)
	}
	if err != nil {
		if err := s.book.settle(ctx, s.server, r, r.grant); err != nil {
			return Token{}, err
		}
		if usable {
			return r.access, nil
		}
		return Token{}, err
	}
	return next.access, s.book.settle(ctx, s.server, r, next)
}
