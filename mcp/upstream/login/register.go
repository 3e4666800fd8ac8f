package login

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// Registered is a client that an operator has registered at an authorization server.
type Registered struct {
	Issuer string // the authorization server; no other server gets the secret
	ID     string
	Secret Token // zero for a public client
}

// identify returns belljar's identity at an authorization server (MCP 2026-07-28, "Client
// Registration"): the client that the operator has registered; otherwise the URL of
// belljar's metadata; otherwise a client that is registered now.
func (f *fetcher) identify(ctx context.Context, e *Endpoints, registered *Registered, document, redirect string) (identity, error) {
	switch {
	case registered != nil && registered.Issuer != e.Issuer:
		return identity{}, fmt.Errorf("the client was registered at the authorization server %s, but the server names %s: the client's secret is not sent to another authorization server", show(registered.Issuer), show(e.Issuer))
	case registered != nil && registered.ID == "":
		return identity{}, errors.New("the registered client has no id")
	case registered != nil:
		return identity{id: registered.ID, secret: registered.Secret, basic: basic(registered.Secret, e.Methods)}, nil
	case document != "" && e.Documents:
		if u, err := url.Parse(document); err != nil || u.Scheme != "https" || u.Host == "" || u.Path == "" || u.Path == "/" {
			return identity{}, fmt.Errorf("the URL of the client's metadata %s is not an https URL with a path", show(document))
		}
		return identity{id: document}, nil
	case e.Register != "":
		return f.register(ctx, e, redirect)
	}
	return identity{}, fmt.Errorf("the authorization server %s does not register clients automatically: register a client there, for the redirect http://127.0.0.1%s, and name that client in the configuration", show(e.Issuer), redirectPath)
}

// basic reports whether a secret is sent in a header. A server that does not state its
// methods supports that (RFC 8414, section 2).
func basic(secret Token, methods []string) bool {
	return !secret.IsZero() && (len(methods) == 0 || slices.Contains(methods, "client_secret_basic"))
}

// register registers a client at the authorization server (RFC 7591). A registration is
// used for one login: the next login has another redirect.
func (f *fetcher) register(ctx context.Context, e *Endpoints, redirect string) (identity, error) {
	ctx, stop := context.WithTimeout(ctx, fetchTime)
	defer stop()
	client, kind := f.sends, "web"
	if strings.HasPrefix(redirect, "http://") {
		kind = "native" // otherwise some servers refuse a redirect to this machine
	}
	made, err := oauthex.RegisterClient(ctx, e.Register, &oauthex.ClientRegistrationMetadata{
		RedirectURIs:            []string{redirect},
		TokenEndpointAuthMethod: "none",
		GrantTypes:              []string{"authorization_code", "refresh_token"},
		ResponseTypes:           []string{"code"},
		ClientName:              "belljar",
		ApplicationType:         kind,
	}, &client)
	if refused, ok := errors.AsType[*oauthex.ClientRegistrationError](err); ok {
		return identity{}, fmt.Errorf("register at the authorization server: it refused: %s", show(refused.ErrorCode))
	}
	if err != nil {
		return identity{}, fmt.Errorf("register at the authorization server: %w", cut(err))
	}
	id := identity{id: made.ClientID}
	if made.TokenEndpointAuthMethod != "none" {
		id.secret = NewToken(made.ClientSecret)
		id.basic = !id.secret.IsZero() && made.TokenEndpointAuthMethod != "client_secret_post"
	}
	return id, id.secret.check()
}

// cut returns an error of a registration without the response of the server, which may
// contain a secret.
func cut(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	if errors.Is(err, errLarge) {
		return errLarge
	}
	return errors.New("the answer is not a registration")
}
