package console

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"belljar.dev/policies"
)

// Bounds of logins at a provider.
const (
	pendingLoginLife    = 10 * time.Minute // longest time from the beginning of a login to its end
	maxProviderRequests = 8                // number of requests that wait for the provider

	maxRefused = 200 // bytes of the name of a refused person in the log
)

// loginPath is the path to which a provider redirects a browser. It also serves the page.
const loginPath = "login"

// Provider lets people log in who have proved their identity at an OpenID Provider.
type Provider interface {
	// Host returns the host of the provider; empty if the policy has no provider.
	Host() string
	// Begin begins a login at whose end the browser is redirected to the URL back.
	Begin(ctx context.Context, back string) (PendingLogin, error)
	// Finish ends a login with the code that the browser brings, and returns the claims of
	// the person. kept is PendingLogin.Kept.
	Finish(ctx context.Context, kept []byte, code string) (map[string]any, error)
	// Admits returns the person for claims under the policy in force; false if it admits no
	// such person.
	Admits(claims map[string]any) (Known, bool)
}

// PendingLogin is a login that has begun.
type PendingLogin struct {
	URL   string // URL to which the browser is sent
	State string // state that the browser brings back
	Kept  []byte // data that the provider needs to end the login
}

// sealed is a PendingLogin that the page keeps in encrypted form. The server stores nothing
// about logins that have begun, so nobody can exhaust its memory with them.
type sealed struct {
	Until time.Time `json:"until"`
	State string    `json:"state"`
	Kept  []byte    `json:"kept"`
}

// newSeal returns a cipher with a new random key, for this process only.
func newSeal() (cipher.AEAD, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never returns an error
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// isReturnPath reports whether a path is one to which a provider, or the authorization
// server of an upstream, redirects browsers.
func (c *Console) isReturnPath(path string) bool {
	if path == "/"+upstreamLoginPath || path == "/"+c.prefix+upstreamLoginPath {
		return c.upstreamLogins.pending()
	}
	return c.views.Provider != nil && (path == "/"+loginPath || path == "/"+c.prefix+loginPath) && c.views.Provider.Host() != ""
}

// loginMethods returns the ways to log in, in addition to codes and tokens.
func loginMethods(r *request) (any, error) {
	c := r.console
	out := struct {
		Provider string `json:"provider,omitempty"`
	}{}
	if c.views.Provider != nil {
		out.Provider = c.views.Provider.Host()
	}
	return out, nil
}

// takeProviderSlot takes one of the slots for requests to the provider.
func (c *Console) takeProviderSlot() (leave func(), err error) {
	if c.views.Provider == nil || c.views.Provider.Host() == "" {
		return nil, fault(http.StatusNotFound, "people do not log in at a provider here; the policy names none under console")
	}
	select {
	case c.providerSlots <- struct{}{}:
		return func() { <-c.providerSlots }, nil
	default:
		return nil, fault(http.StatusTooManyRequests, "%d people are logging in at the provider now; try again in a moment", maxProviderRequests)
	}
}

// beginLogin begins a login at the provider.
func beginLogin(r *request) (any, error) {
	c := r.console
	if err := r.read(&struct{}{}); err != nil {
		return nil, err
	}
	leave, err := c.takeProviderSlot()
	if err != nil {
		return nil, err
	}
	defer leave()
	pending, err := c.views.Provider.Begin(r.context(), c.front.URL()+"/"+c.prefix+loginPath)
	if err != nil {
		return nil, c.failed(err, "the provider %s does not answer as it should; try again in a minute, or log in with a link or a token. The log of the server says more", c.views.Provider.Host())
	}
	text, err := json.Marshal(sealed{time.Now().Add(pendingLoginLife), pending.State, pending.Kept})
	if err != nil {
		return nil, err
	}
	return struct {
		URL     string `json:"url"`
		Pending string `json:"pending"` // encrypted login, for the page to keep
	}{pending.URL, base64.RawURLEncoding.EncodeToString(c.seal.Seal(nil, nil, text, nil))}, nil
}

// failed logs why a login failed, and returns the error for the person.
func (c *Console) failed(why error, format string, args ...any) error {
	c.views.Server.Noted(Login{Event: "refused", Reason: why.Error()})
	return fault(http.StatusBadGateway, format, args...)
}

// errNotPending is the error for a login at a provider that did not begin here, began too
// long ago, or has ended.
var errNotPending = errors.New("this login did not begin in this tab, began too long ago, or has ended; begin again")

// finish lets a person log in who returns from the provider.
func (c *Console) finish(r *request, pending, state, code string) (token string, who Person, err error) {
	text, err := base64.RawURLEncoding.DecodeString(pending)
	if err != nil {
		return "", who, errNotPending
	}
	var is sealed
	if text, err = c.seal.Open(nil, nil, text, nil); err != nil || json.Unmarshal(text, &is) != nil {
		return "", who, errNotPending
	}
	if subtle.ConstantTimeCompare([]byte(is.State), []byte(state)) != 1 || !time.Now().Before(is.Until) {
		return "", who, errNotPending
	}
	leave, err := c.takeProviderSlot()
	if err != nil {
		return "", who, err
	}
	defer leave()
	if err := c.tries.take(is.State, clientOf(r.in)); err != nil {
		return "", who, err
	}
	claims, err := c.views.Provider.Finish(r.context(), is.Kept, code)
	if err != nil {
		return "", who, c.failed(err, "the provider %s did not show who you are; begin again, or log in with a link or a token. The log of the server says more", c.views.Provider.Host())
	}
	known, ok := c.views.Provider.Admits(claims)
	if !ok {
		shown := policies.Clip(fmt.Sprintf("%s|%s", claims["iss"], claims["sub"]), maxRefused)
		c.views.Server.Noted(Login{Event: "refused", Person: shown, Reason: "no person in the policy has the claims that the provider sent"})
		return "", who, &Error{http.StatusForbidden, fmt.Errorf("the provider %s knows you, but the policy of the server does not let you in; the operator of the server can change that, under console", c.views.Provider.Host())}
	}
	c.tries.well(is.State)
	token, who = c.access.enter(Person{Name: known.Name, Role: known.Role, Scope: known.Scope, known: identity(claims), claims: claims})
	return token, who, nil
}

// identity returns a digest of those claims that identify a person. A person's name may
// change, but their earlier logins must still count as theirs.
func identity(claims map[string]any) sha256sum {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q", claims["iss"], claims["sub"]))
}

// holds reports whether a person may still use the console, and returns the person with
// their current name, role and scope. A person in the policy loses access when their entry
// is removed from it.
func (p Person) holds(ctx context.Context, v *Views) (Person, bool) {
	switch {
	case p.known == (sha256sum{}):
		return p, true
	case p.claims != nil:
		k, ok := v.Provider.Admits(p.claims)
		p.Name, p.Role, p.Scope = k.Name, k.Role, k.Scope
		return p, ok
	}
	for _, k := range v.Server.Known(ctx) {
		if k.Name == p.Name && k.Sum == p.known {
			p.Role, p.Scope = k.Role, k.Scope
			return p, true
		}
	}
	return Person{}, false
}
