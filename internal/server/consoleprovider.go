package server

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"sync"

	"belljar.dev/internal/auth"
	"belljar.dev/internal/config"
	"belljar.dev/internal/console"
	"belljar.dev/internal/hostexec"
	"belljar.dev/policies"
)

// consoleProvider is the OpenID Provider of the policy in force, at which people log in to
// the console. It is safe for concurrent use. Close ends its requests.
type consoleProvider struct {
	server *Server
	roots  *x509.CertPool // certificate authorities for the provider; nil for those of the system

	mu     sync.Mutex
	at     *auth.Provider      // guarded by mu; nil before the first provider, and after Close
	of     auth.ProviderConfig // guarded by mu: configuration of at
	closed bool                // guarded by mu
}

// errNoProvider is the error if the policy in force names no provider.
var errNoProvider = errors.New("the policy names no provider at which people log in")

// now returns the provider of the policy in force. If it is another provider than before,
// the data of the old one are dropped, and logins that wait for the old one fail.
func (v *consoleProvider) now() (*auth.Provider, *policies.Provider, error) {
	is := policies.ProviderOf(v.server.gate.now.Load())
	if is == nil {
		return nil, nil, errNoProvider
	}
	cfg := auth.ProviderConfig{Issuer: is.URL, Client: is.Client, Scopes: is.Scopes, Algorithms: is.Algorithms, Addresses: is.Addresses, Roots: v.roots}
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return nil, nil, auth.ErrClosed
	}
	old := v.at
	if old != nil && reflect.DeepEqual(cfg, v.of) {
		v.mu.Unlock()
		return old, is, nil
	}
	fresh := auth.NewProvider(cfg)
	v.at, v.of = fresh, cfg
	v.mu.Unlock()
	if old != nil {
		old.Close()
	}
	return fresh, is, nil
}

// Close ends the logins that wait for the provider, and waits for their end. No login
// begins after Close.
func (v *consoleProvider) Close() {
	v.mu.Lock()
	at := v.at
	v.at, v.closed = nil, true
	v.mu.Unlock()
	if at != nil {
		at.Close()
	}
}

// Host returns the host of the provider; empty without a provider.
func (v *consoleProvider) Host() string {
	is := policies.ProviderOf(v.server.gate.now.Load())
	if is == nil {
		return ""
	}
	u, err := url.Parse(is.URL)
	if err != nil {
		return "" // does not happen: a policy has only valid URLs
	}
	return u.Host
}

// Begin begins a login.
func (v *consoleProvider) Begin(ctx context.Context, back string) (pending console.PendingLogin, err error) {
	at, _, err := v.now()
	if err != nil {
		return pending, err
	}
	is, err := at.Begin(ctx, back)
	if err != nil {
		return pending, err
	}
	kept, err := json.Marshal(is)
	return console.PendingLogin{URL: is.URL, State: is.State, Kept: kept}, err
}

// Finish ends a login, and returns the claims of the ID token.
func (v *consoleProvider) Finish(ctx context.Context, kept []byte, code string) (map[string]any, error) {
	at, is, err := v.now()
	if err != nil {
		return nil, err
	}
	var pending auth.PendingLogin
	if err := json.Unmarshal(kept, &pending); err != nil {
		return nil, err
	}
	secret := ""
	if !reflect.ValueOf(is.Secret).IsZero() {
		s := v.server
		boxes := config.Boxes(s.gate.now.Load(), s.workspaces(), s.State)
		if secret, err = config.ReadSecret(ctx, "of the client at "+v.Host(), is.Secret, hostexec.Program{Boxes: boxes}); err != nil {
			return nil, err
		}
	}
	return at.Finish(ctx, pending, code, secret)
}

// Admits returns the person whom the policy lets in by the claims of an ID token. It
// returns false if the policy lets nobody in by them.
func (v *consoleProvider) Admits(claims map[string]any) (console.Known, bool) {
	is := policies.ProviderOf(v.server.gate.now.Load())
	if is == nil || claims["iss"] != any(is.URL) {
		return console.Known{}, false
	}
	who, why := is.Person(claims)
	if why != "" {
		v.server.Log.Debug("a person logged in at the provider, and the policy does not let this person in", "provider", is.URL, "why", why)
		return console.Known{}, false
	}
	role, err := console.ParseRole(who.Role)
	if err != nil { // does not happen: a policy has only these roles
		return console.Known{}, false
	}
	return console.Known{Name: who.Name, Role: role, Scope: scopeOf(who.Tenants)}, true
}
