package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// flowTime is how long a person has to log in.
const flowTime = 10 * time.Minute

// errLate is the error of a login that a person did not finish in time.
var errLate = fmt.Errorf("nobody has logged in within %v", flowTime)

// Config is the configuration of a login.
type Config struct {
	Client *http.Client // required: makes all requests, to the server and to the authorization server
	Book   *Book        // required
	Server Server
	// Open shows a person the URL where to log in. It returns immediately. StartFlow does
	// not need it.
	Open func(url string)
	// Redirect is the URL at which the caller receives the answer for Flow.Receive. It must
	// be https, or on this machine. If it is empty, a listener on this machine receives the
	// answer for Flow.Finish.
	Redirect string
	// Registered is a client that the operator has registered. Document is the URL of the
	// metadata of belljar as a client. If both are empty, or if the authorization server
	// does not support documents, belljar registers itself.
	Registered *Registered
	Document   string
	Scopes     []string // scopes to request in addition to those that the server names
}

// Flow is one login: the authorization code flow with PKCE (RFC 6749, section 4.1; RFC 7636).
// Close ends it, also after Finish. Its methods are called by one goroutine.
type Flow struct {
	book     *Book
	server   Server
	fetch    *fetcher
	expect   *Endpoints
	listener *listener // nil if the caller receives the answer
	redirect string    // URL to which the browser is redirected with the answer
	client   identity
	scopes   []string
	state    string
	verifier string
}

// StartFlow finds the authorization server of a server, and registers a client if that is
// needed. Unless the caller receives the answer, it opens a listener for the answer.
func StartFlow(ctx context.Context, cfg Config) (*Flow, error) {
	s, err := cfg.Server.normal()
	if err != nil {
		return nil, err
	}
	if err := checkRedirect(cfg.Redirect); err != nil {
		return nil, err
	}
	f, err := newFetcher(cfg.Client)
	if err != nil {
		return nil, err
	}
	challenge, err := f.challenge(ctx, s.URL)
	if err != nil {
		return nil, err
	}
	e, err := Discover(ctx, cfg.Client, s.URL, challenge)
	if err != nil {
		return nil, err
	}
	fl := &Flow{
		book: cfg.Book, server: s, fetch: f, expect: e, scopes: valid(slices.Concat(e.Scopes, cfg.Scopes)),
		state: rand.Text(), verifier: rand.Text() + rand.Text(), // 260 bits; RFC 7636 requires at least 43 characters
	}
	if fl.redirect = cfg.Redirect; fl.redirect == "" {
		if fl.listener, err = listen(ctx, fl.state); err != nil {
			return nil, err
		}
		fl.redirect = fl.listener.url()
	}
	if fl.client, err = f.identify(ctx, e, cfg.Registered, cfg.Document, fl.redirect); err != nil {
		fl.Close(ctx)
		return nil, err
	}
	return fl, nil
}

// Close stops waiting for the answer. It waits at most a second for a page that is being
// written. It may be called twice.
func (fl *Flow) Close(ctx context.Context) {
	if fl.listener != nil {
		fl.listener.close(ctx)
	}
}

// checkRedirect returns an error if others could read the code on its way to the caller's
// URL.
func checkRedirect(redirect string) error {
	if redirect == "" {
		return nil
	}
	u, err := parse(redirect)
	if err != nil {
		return fmt.Errorf("the redirect %w", err)
	}
	if u.Scheme != "https" && !loopback(u) {
		return errors.New("the redirect does not begin with https://, and is not on this machine: others could read the code on the way")
	}
	return nil
}

// Issuer returns the identifier of the authorization server.
func (fl *Flow) Issuer() string { return fl.expect.Issuer }

// Resource returns the URL of the server in the spelling of its metadata.
func (fl *Flow) Resource() string { return fl.expect.Resource }

// URL returns the URL where the person logs in.
func (fl *Flow) URL() string {
	challenge := sha256.Sum256([]byte(fl.verifier))
	query := url.Values{
		"response_type": {"code"}, "client_id": {fl.client.id}, "redirect_uri": {fl.redirect}, "state": {fl.state},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
		"resource": {fl.expect.Resource},
	}
	if len(fl.scopes) > 0 {
		query.Set("scope", strings.Join(fl.scopes, " "))
	}
	between := "?"
	if strings.Contains(fl.expect.Authorize, "?") {
		between = "&"
	}
	return fl.expect.Authorize + between + query.Encode()
}

// Finish waits for the answer, and keeps the login that follows from it.
func (fl *Flow) Finish(ctx context.Context) error {
	g, err := fl.grant(ctx)
	if err != nil {
		return err
	}
	return fl.book.keep(ctx, fl.server, g)
}

// grant waits for the answer at the listener, and exchanges its code.
func (fl *Flow) grant(ctx context.Context) (*grant, error) {
	ctx, stop := context.WithTimeoutCause(ctx, flowTime, errLate)
	defer stop()
	if fl.listener == nil {
		return nil, errors.New("this flow has no listener: call Receive with the answer")
	}
	query, err := fl.listener.wait(ctx)
	if err != nil {
		return nil, err
	}
	return fl.exchange(ctx, query)
}

// Answers reports whether a query has the state of this flow exactly once, and is therefore
// the answer for Receive.
func (fl *Flow) Answers(query url.Values) bool {
	states := query["state"]
	return len(states) == 1 && subtle.ConstantTimeCompare([]byte(states[0]), []byte(fl.state)) == 1
}

// Receive keeps the login that follows from an answer that the caller has received at
// Config.Redirect. An answer without the state of this flow is not used.
func (fl *Flow) Receive(ctx context.Context, answer url.Values) error {
	if !fl.Answers(answer) {
		return errors.New("the answer does not belong to this login, and was not used")
	}
	g, err := fl.exchange(ctx, answer)
	if err != nil {
		return err
	}
	return fl.book.keep(ctx, fl.server, g)
}

// exchange exchanges an answer with the right state for a login.
func (fl *Flow) exchange(ctx context.Context, query url.Values) (*grant, error) {
	code, err := fl.code(query)
	if err != nil {
		return nil, err
	}
	g := grant{issuer: fl.expect.Issuer, token: fl.expect.Token, resource: fl.expect.Resource, client: fl.client}
	return fl.fetch.exchange(ctx, g, code, fl.verifier, fl.redirect, fl.book.kept.Now())
}

// code returns the code of an answer with the right state.
func (fl *Flow) code(query url.Values) (string, error) {
	for _, name := range []string{"iss", "code", "error"} {
		if len(query[name]) > 1 {
			return "", fmt.Errorf("the answer of the authorization server has more than one %s", name)
		}
	}
	// The issuer is checked first, also for errors: the answer may come from another
	// authorization server, which must not get this code, and whose text must not be used
	// (RFC 9207, section 2.4).
	issuer, named := query.Get("iss"), query.Has("iss")
	switch {
	case named && issuer != fl.expect.Issuer:
		return "", fmt.Errorf("the answer comes from another authorization server, %s, and was not used", show(issuer))
	case !named && fl.expect.NamesSelf:
		return "", errors.New("the answer does not name the authorization server, although this server always names itself: the answer was not used")
	case query.Has("error"):
		return "", newRefusal(query.Get("error"))
	case query.Get("code") == "":
		return "", errors.New("the answer of the authorization server has no code")
	}
	return query.Get("code"), nil
}
