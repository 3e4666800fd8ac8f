package console

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

// loggedIn is the answer to a login.
type loggedIn struct {
	Token  string    `json:"token"`
	Person string    `json:"person"`
	Role   string    `json:"role"`
	Until  time.Time `json:"until"`
}

// logIn exchanges a code for a token.
func logIn(r *request) (any, error) {
	c := r.console
	var said struct {
		Code    string `json:"code"`
		Pending string `json:"pending"` // pending login of a person who returns from the provider
		State   string `json:"state"`
	}
	if err := r.read(&said); err != nil {
		return nil, err
	}
	var token string
	var who Person
	var err error
	if said.Pending == "" {
		token, who, err = c.enter(r, said.Code)
	} else {
		token, who, err = c.finish(r, said.Pending, said.State, said.Code)
	}
	known, _ := errors.AsType[*Error](err)
	switch {
	case known != nil:
		return nil, err
	case errors.Is(err, errLocked):
		r.w.Header().Set("Retry-After", "60")
		respond(r.w, http.StatusTooManyRequests, refusal{Error: err.Error(), After: int(lockedFor.Seconds())})
		return nil, errAnswered
	case err != nil:
		c.views.Server.Noted(Login{Event: "refused", Reason: "a wrong code or token"})
		return nil, &Error{http.StatusUnauthorized, err}
	}
	// The new token may have ended an older one, also that of another person.
	c.upstreamLogins.dropEnded(context.WithoutCancel(r.context()), c.access.valid)
	c.look()
	c.views.Server.Noted(Login{Event: "console", Person: who.Name, Role: who.Role})
	// This header removes the data that another program left in the browser when it used
	// the same port.
	r.w.Header().Set("Clear-Site-Data", `"cache", "storage"`)
	return loggedIn{token, who.Name, who.Role.String(), who.Until}, nil
}

// enter lets a person log in with a code, or with their own token. A person's own token has
// 256 random bits. Wrong tokens never lock the login: otherwise anybody on another machine
// could lock it.
func (c *Console) enter(r *request, said string) (token string, who Person, err error) {
	if !strings.HasPrefix(said, ownToken) {
		return c.access.login(said)
	}
	// A token that an agent has as well does not prove who the person is.
	if !c.views.Server.Agent(r.context(), said) {
		var ok bool
		if token, who, ok = c.access.loginKnown(said, c.views.Server.Known(r.context())); ok {
			return token, who, nil
		}
	}
	return "", who, errToken
}

// logOut ends the token of the request, and the upstream login that began with this token.
func logOut(r *request) (any, error) {
	c := r.console
	c.access.logout(r.who)
	c.upstreamLogins.drop(context.WithoutCancel(r.context()), r.who.sum)
	r.w.WriteHeader(http.StatusNoContent)
	return nil, errAnswered
}
