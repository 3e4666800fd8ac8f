package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"belljar.dev/internal/store"
	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/config"
	"belljar.dev/mcp/upstream/login"
	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
)

// NewLogins returns the book of logins in a state directory, for Config.Logins.
func NewLogins(state string, kept store.Config) *login.Book { return login.NewBook(state, kept) }

// Login has a person log in at a remote server for a tenant, and keeps the tokens in
// cfg.Logins. open gets the URL for the person. Login uses only Workspace, Policy, Files,
// Trusted, Logins and Log of cfg.
func Login(ctx context.Context, cfg Config, tenant, name string, open func(address string)) error {
	at, door, err := loginOf(cfg, tenant, name)
	if err != nil {
		return err
	}
	defer door.Close()
	at.Open = open
	return login.Login(ctx, at)
}

// UpstreamLogin is a login at a remote server that has begun. Its methods are not called concurrently.
// Close ends it, also after Receive.
type UpstreamLogin struct {
	*login.Flow

	door *egress.Door
}

// StartLogin is Login for a caller that sends the person to the URL itself, and receives
// the answer at the URL redirect. It returns once the authorization server is found.
func StartLogin(ctx context.Context, cfg Config, tenant, name, redirect string) (*UpstreamLogin, error) {
	at, door, err := loginOf(cfg, tenant, name)
	if err != nil {
		return nil, err
	}
	at.Redirect = redirect
	flow, err := login.StartFlow(ctx, at)
	if err != nil {
		door.Close()
		return nil, fmt.Errorf("log in at the server %s: %w", upstream.Line(name), err)
	}
	return &UpstreamLogin{flow, door}, nil
}

// Close ends the login, and the requests that are made for it.
func (p *UpstreamLogin) Close(ctx context.Context) {
	p.Flow.Close(ctx)
	p.door.Close()
}

// loginOf returns what a login at a remote server needs. All requests of the login go
// through the door, which the caller closes.
func loginOf(cfg Config, tenant, name string) (at login.Config, door *egress.Door, err error) {
	here := newSite(cfg)
	all, err := here.readSetup()
	if err != nil {
		return at, nil, err
	}
	s := all.servers[name]
	switch {
	case s == nil && all.broken[name] != "":
		return at, nil, fmt.Errorf("the entry of the server %s cannot be used: %s", upstream.Line(name), upstream.Line(all.broken[name]))
	case s == nil:
		return at, nil, fmt.Errorf("no file has a server %s; name the file with --upstreams, or use --policy with a policy that names the file", upstream.Line(name))
	case !s.Remote:
		return at, nil, fmt.Errorf("the server %s runs on this machine, and has no login; give it a secret in its env", upstream.Line(name))
	}
	grant, err := cfg.Policy().Upstreams().Grant(tenant, policies.UpstreamBox{Server: s.Name, Trusted: s.Trusted})
	if err != nil {
		return at, nil, err
	}
	address, err := s.address(grant)
	if err != nil {
		return at, nil, err
	}
	if why := s.withoutLogin(address); why != "" {
		return at, nil, fmt.Errorf("the server %s has no login: %s", upstream.Line(name), why)
	}
	if door, err = egress.NewFor(grant, cfg.Record, cfg.Allowed); err != nil {
		return at, nil, err
	}
	return login.Config{Client: door.Client(), Book: cfg.Logins, Server: login.Server{Tenant: tenant, Name: s.Name, URL: address}}, door, nil
}

// withoutLogin returns the reason why requests to a remote server never carry the token of
// a login. It returns an empty text if they may.
func (s *server) withoutLogin(address string) string {
	if !strings.HasPrefix(strings.ToLower(address), "https://") {
		return "its url does not begin with https://, so others could read the tokens on the way"
	}
	if slices.ContainsFunc(s.entry.Headers, func(h config.Variable) bool {
		text, known := h.Value.Plain()
		return strings.EqualFold(h.Name, "Authorization") && (!known || text != "")
	}) {
		return "its entry has a header Authorization, which is sent in place of a login"
	}
	return ""
}

// address returns the URL of a remote server, or an error if the policy gives the server no
// network.
func (s *server) address(grant policies.Grant) (string, error) {
	address, ok := s.entry.URL.Plain()
	if !ok {
		return "", fmt.Errorf("its url needs a secret, which others could read on the way: write the secret into headers: %w", upstream.ErrLasting)
	}
	if grant.Network() == policies.NetworkNone {
		host := address
		if u, err := url.Parse(address); err == nil {
			host = cmp.Or(u.Host, address)
		}
		return "", fmt.Errorf("the policy gives it no network: write upstreams.servers.%s.profile.net: {mode: proxy, allow: [%q]}: %w", s.Name, host, upstream.ErrLasting)
	}
	return address, nil
}

// client returns the HTTP client for the requests to a remote server: the client of the
// door, which adds the tokens of the tenant's login if the server can have a login.
func (g *site) client(s *server, tenant, address string, door *egress.Door) (*http.Client, error) {
	if g.cfg.Logins == nil || s.withoutLogin(address) != "" {
		return door.Client(), nil
	}
	source, err := login.NewSource(login.SourceConfig{
		Client: door.Client(), Book: g.cfg.Logins, Server: login.Server{Tenant: tenant, Name: s.Name, URL: address},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, upstream.ErrLasting)
	}
	return source.HTTPClient(), nil
}
