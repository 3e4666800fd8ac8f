package mcp

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"

	"belljar.dev/mcp/wire"
)

// login finds out the caller of a request, and puts the caller into the context of the
// returned request. The returned request does not contain the token. If the caller is
// unknown, the answer has been sent, and ok is false.
func (w *web) login(rw http.ResponseWriter, r *http.Request) (_ *http.Request, ok bool) {
	values := r.Header.Values("Authorization")
	r.Header.Del("Authorization")
	if misplaced(rw, r) {
		return nil, false
	}
	if !w.server.cfg.tenanted() {
		w.server.cfg.callerOf(r.Context()).serves(r.Context())
		return r, true
	}
	auth := w.server.cfg.Auth
	id, err := Identity{}, ErrNoToken
	if len(values) > 0 {
		id, err = authenticate(r.Context(), auth, values)
	}
	switch {
	case err == nil:
		id.serves(r.Context())
		return r.WithContext(context.WithValue(r.Context(), callerKey{}, id)), true
	case errors.Is(err, ErrUnavailable):
		rw.Header().Set("Retry-After", unavailableRetry)
		http.Error(rw, "the token in the Authorization header cannot be checked now; try again", http.StatusServiceUnavailable)
		return nil, false
	}
	w.challenge(rw, r, err)
	return nil, false
}

// authenticate returns the caller for an Authorization header of the form "Bearer TOKEN".
// There must be only one header, and the case of the scheme does not matter (RFC 6750, 2.1;
// RFC 9110, 11.1).
func authenticate(ctx context.Context, auth Authenticator, values []string) (Identity, error) {
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return Identity{}, errors.New("the Authorization header does not have the form Bearer TOKEN")
	}
	return auth.Authenticate(ctx, token)
}

// errLapsed is the error of a token that was valid when its request arrived.
var errLapsed = errors.New("the token is no longer valid")

// unavailableRetry is the time, in seconds, after which a client may try again if its token
// cannot be checked.
const unavailableRetry = "5"

// challenge refuses a request without a valid token.
func (w *web) challenge(rw http.ResponseWriter, r *http.Request, err error) {
	why := "this server needs a token to identify the tenant: send it as Authorization: Bearer TOKEN"
	if !errors.Is(err, ErrNoToken) {
		why = "the token in the Authorization header belongs to no tenant of this server; ask its operator for one"
	}
	rw.Header().Set("WWW-Authenticate", w.server.cfg.Auth.Challenge(r.Context(), err))
	http.Error(rw, why, http.StatusUnauthorized)
}

// misplaced refuses a request with a token anywhere except in its header Authorization:
// such a token is already in logs and histories (RFC 6750, 2.3), and requests of web pages
// also carry cookies. The answer does not repeat the token.
func misplaced(rw http.ResponseWriter, r *http.Request) bool {
	where := ""
	if r.URL.RawQuery != "" {
		for name := range r.URL.Query() {
			if tokenName(name) {
				where = "the URL"
			}
		}
	}
	for _, cookie := range r.Cookies() {
		if tokenName(cookie.Name) {
			where = "a cookie"
		}
	}
	if where == "" {
		return false
	}
	http.Error(rw, "there is a token in "+where+": send it as Authorization: Bearer TOKEN, and have it replaced, because others may have seen it", http.StatusBadRequest)
	return true
}

// misplaced returns an error if a message contains a token in the _meta of its params.
func (p *posted) misplaced() *wire.Error {
	if p.message != nil {
		return tokenInMeta(p.message.Meta)
	}
	var bad *wire.Error
	wire.Elements(p.body, func(raw []byte) bool {
		bad = tokenInMeta(wire.Member(wire.Member(raw, "params"), "_meta"))
		return bad == nil
	})
	return bad
}

// scoped refuses a request with a call for which the scopes of the caller's token are not
// enough (RFC 6750, 3.1). The gate would refuse the call, too. But a client that sees this
// status can ask its user for a token with more scopes.
func (w *web) scoped(rw http.ResponseWriter, r *http.Request, p posted) (ok bool) {
	caller := w.server.cfg.callerOf(r.Context())
	if caller.Scopes == nil {
		return true
	}
	var lacks []string
	each := func(raw []byte) bool {
		method, params := wire.Text(wire.Member(raw, "method")), wire.Member(raw, "params")
		name := w.server.tools.calledBy(method, params)
		if method != "tools/call" && name == "" {
			return true
		}
		profile := wire.Text(wire.Member(wire.Member(params, "arguments"), "profile"))
		lacks = missing(w.server.cfg.Auth, caller, name, profile)
		return lacks == nil
	}
	if len(p.body) > 0 && p.body[0] == '[' {
		wire.Elements(p.body, func(raw []byte) bool { return each(bytes.TrimSpace(raw)) })
	} else {
		each(p.body)
	}
	if lacks == nil {
		return true
	}
	err := &ScopeError{Scopes: lacks}
	rw.Header().Set("WWW-Authenticate", w.server.cfg.Auth.Challenge(r.Context(), err))
	bad := wire.Errorf(wire.InvalidRequest, "%v", err)
	bad.Data = map[string]any{"reason": "insufficient_scope", "scopes": lacks}
	w.refuse(rw, http.StatusForbidden, p.id, p.era, bad)
	return false
}
