package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// renewEarly is how long before its end a token is renewed. A quarter of the token's life
// is used if that is shorter.
const renewEarly = time.Minute

// identity is the client that belljar is for an authorization server.
type identity struct {
	id     string
	secret Token
	basic  bool // the secret is sent in a header, and not in the form
}

// grant is a login: the tokens, and the data to renew them.
type grant struct {
	issuer   string
	token    string // URL of the token endpoint
	resource string
	client   identity
	access   Token
	refresh  Token
	expires  time.Time // end of access; zero if it is not known
	renew    time.Time // time to renew access; zero if it is only renewed after a refusal
}

// refusal is the error of an authorization server that issues no tokens (RFC 6749, section
// 5.2).
type refusal struct{ code string }

// codes are the errors that a refusal shows. Any other text of the server would look to
// people and agents like a text of belljar.
var codes = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope", "invalid_target",
	"access_denied", "unsupported_response_type", "server_error", "temporarily_unavailable",
}

func newRefusal(code string) *refusal {
	if !slices.Contains(codes, code) {
		code = "an error without a known code"
	}
	return &refusal{code}
}

func (r *refusal) Error() string { return "the authorization server refuses: " + r.code }

// lasting reports whether the same request will be refused again.
func (r *refusal) lasting() bool {
	return slices.Contains([]string{"invalid_client", "invalid_grant", "unauthorized_client", "invalid_scope", "invalid_target"}, r.code)
}

// exchange exchanges a code for a login. g is the login without its tokens.
func (f *fetcher) exchange(ctx context.Context, g grant, code, verifier, redirect string, now time.Time) (*grant, error) {
	return f.tokens(ctx, g, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {verifier}, "redirect_uri": {redirect},
	}, now)
}

// refreshed returns a login with new tokens.
func (f *fetcher) refreshed(ctx context.Context, g grant, now time.Time) (*grant, error) {
	return f.tokens(ctx, g, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.refresh.reveal()}}, now)
}

// tokens requests tokens from the token endpoint (RFC 6749, sections 4.1.3 and 6; RFC 8707,
// section 2.2).
func (f *fetcher) tokens(ctx context.Context, g grant, form url.Values, now time.Time) (*grant, error) {
	ctx, stop := context.WithTimeout(ctx, fetchTime)
	defer stop()
	form.Set("resource", g.resource)
	if !g.client.basic {
		form.Set("client_id", g.client.id)
		if !g.client.secret.IsZero() {
			form.Set("client_secret", g.client.secret.reveal())
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.token, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if g.client.basic { // each part is encoded before they are joined (RFC 6749, section 2.3.1)
		r.SetBasicAuth(url.QueryEscape(g.client.id), url.QueryEscape(g.client.secret.reveal()))
	}
	resp, err := f.send(r)
	if err != nil {
		return nil, fmt.Errorf("request a token from %s: %w", origin(r.URL), err)
	}
	defer resp.Body.Close()
	if err := g.read(resp, now); err != nil {
		return nil, fmt.Errorf("request a token from %s: %w", origin(r.URL), err)
	}
	return &g, nil
}

// response is the response of a token endpoint (RFC 6749, sections 5.1 and 5.2).
type response struct {
	Access  string  `json:"access_token"`
	Type    string  `json:"token_type"`
	Expires seconds `json:"expires_in"`
	Refresh string  `json:"refresh_token"`
	Error   string  `json:"error"`
}

// seconds is a number that some servers write as a string.
type seconds int64

// UnmarshalJSON reads a number of seconds. Any other value counts as unknown.
func (s *seconds) UnmarshalJSON(text []byte) error {
	if n, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 32); err == nil {
		*s = seconds(n)
	}
	return nil
}

// read sets the tokens of a login from a response.
func (g *grant) read(resp *http.Response, now time.Time) error {
	var a response
	err := decode(resp.Body, &a)
	switch {
	case err == nil && a.Error != "":
		return newRefusal(a.Error)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("HTTP status %d", resp.StatusCode)
	case err != nil:
		return err
	// RFC 6749, section 7.1: a token of another type must not be used
	case a.Access == "" || !strings.EqualFold(a.Type, "Bearer"):
		return errors.New("the response has no token of the type Bearer")
	}
	g.access = NewToken(a.Access)
	if a.Refresh != "" { // otherwise the old refresh token stays (RFC 6749, section 6)
		g.refresh = NewToken(a.Refresh)
	}
	g.expires, g.renew = time.Time{}, time.Time{}
	if life := time.Duration(a.Expires) * time.Second; life > 0 {
		g.expires = now.Add(life)
		g.renew = g.expires.Add(-min(renewEarly, life/4))
	}
	return errors.Join(g.access.check(), g.refresh.check())
}
