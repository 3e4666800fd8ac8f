package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// Bounds of the data of servers. maxScopes bounds the number of scopes.
const (
	maxChallenge = 8 << 10 // most bytes of one header
	maxScopes    = 64
	maxScope     = 256 // most bytes of a scope
)

// Endpoints contains what a server and its authorization server state in their metadata.
// Discover has checked all of it.
type Endpoints struct {
	Resource  string // the resource that tokens are for: the server, or a resource that covers it
	Issuer    string // identifier of the authorization server
	Authorize string // endpoint where the person logs in
	Token     string // endpoint that issues tokens
	Register  string // endpoint where clients register themselves; may be empty
	Methods   []string
	Scopes    []string // scopes to request
	Documents bool     // a client id may be the URL of the client's metadata
	NamesSelf bool     // responses name the issuer (RFC 9207)
}

// wellKnown is the beginning of the path of a server's metadata (RFC 9728, section 3).
const wellKnown = "/.well-known/oauth-protected-resource"

// Discover finds out where to log in for a server. challenge contains the headers
// WWW-Authenticate of the server's response with status 401. If it names no metadata,
// Discover looks for the metadata at their usual places. The client makes all requests.
func Discover(ctx context.Context, client *http.Client, server string, challenge []string) (*Endpoints, error) {
	f, err := newFetcher(client)
	if err != nil {
		return nil, err
	}
	s, err := parseServer(server)
	if err != nil {
		return nil, err
	}
	found, err := f.discover(ctx, s, challenge)
	if err != nil {
		return nil, fmt.Errorf("find out where to log in for %s: %w", origin(s.URL), err)
	}
	return found, nil
}

// challenge returns the headers WWW-Authenticate of a server's refusal of a request without
// a token; nil if the server does not refuse it. The kind of request does not matter: a
// server checks the token first.
func (f *fetcher) challenge(ctx context.Context, server string) ([]string, error) {
	ctx, stop := context.WithTimeout(ctx, fetchTime)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := f.send(r)
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		return nil, nil
	}
	return resp.Header.Values("Www-Authenticate"), nil
}

func (f *fetcher) discover(ctx context.Context, s remote, challenge []string) (*Endpoints, error) {
	address, scopes := readChallenge(challenge)
	about, err := f.resource(ctx, s, address)
	if err != nil {
		return nil, err
	}
	e, err := f.issuer(ctx, s, about.Servers[0])
	if err != nil {
		return nil, err
	}
	if len(scopes) == 0 {
		scopes = valid(about.Scopes)
	}
	if slices.Contains(e.Scopes, "offline_access") && !slices.Contains(scopes, "offline_access") {
		// otherwise some servers issue no refresh tokens (MCP 2026-07-28, "Refresh Tokens")
		scopes = append(scopes, "offline_access")
	}
	e.Resource, e.Scopes = about.Resource, scopes
	return e, nil
}

// readChallenge returns the URL of the metadata, and the scopes that a server requires.
func readChallenge(headers []string) (address string, scopes []string) {
	for _, header := range headers {
		if len(header) > maxChallenge {
			continue
		}
		all, err := oauthex.ParseWWWAuthenticate([]string{header})
		if err != nil {
			continue // the header is ignored: it may be of another scheme
		}
		for _, c := range all {
			if c.Scheme != "bearer" {
				continue
			}
			if address == "" {
				address = c.Params["resource_metadata"]
			}
			if scopes == nil {
				scopes = valid(strings.Fields(c.Params["scope"]))
			}
		}
	}
	return address, scopes
}

// valid returns the valid scopes of a list (RFC 6749, section 3.3).
func valid(all []string) (scopes []string) {
	for _, s := range all {
		bad := func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }
		if s != "" && len(s) <= maxScope && !strings.ContainsFunc(s, bad) && !slices.Contains(scopes, s) && len(scopes) < maxScopes {
			scopes = append(scopes, s)
		}
	}
	return scopes
}

// resourceMetadata is the metadata of a server (RFC 9728, section 2).
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// resource reads the metadata of a server: only at the URL that the challenge names or, if
// it names none, at the two well-known places.
func (f *fetcher) resource(ctx context.Context, s remote, address string) (*resourceMetadata, error) {
	if address != "" {
		from, err := s.endpoint("resource_metadata of the server's challenge", address)
		if err != nil {
			return nil, err
		}
		return f.resourceAt(ctx, s, from)
	}
	var absent error
	for _, path := range slices.Compact([]string{wellKnown + strings.TrimSuffix(s.EscapedPath(), "/"), wellKnown}) {
		from, err := url.Parse(origin(s.URL) + path)
		if err != nil {
			return nil, err
		}
		about, err := f.resourceAt(ctx, s, from)
		if !errors.Is(err, errAbsent) {
			return about, err
		}
		absent = err
	}
	return nil, fmt.Errorf("the server has no metadata that name an authorization server, so nobody can log in: %w", absent)
}

func (f *fetcher) resourceAt(ctx context.Context, s remote, from *url.URL) (*resourceMetadata, error) {
	// The metadata must come from the server itself: metadata on another host could name an
	// authorization server that collects logins.
	if origin(from) != origin(s.URL) {
		return nil, fmt.Errorf("the server's metadata are on another host, %s", show(from.Host))
	}
	var about resourceMetadata
	if err := f.document(ctx, from, &about); err != nil {
		return nil, err
	}
	resource, err := s.endpoint("resource of the server's metadata", about.Resource)
	if err != nil {
		return nil, err
	}
	if !s.covers(resource) {
		return nil, fmt.Errorf("the server's metadata are those of another resource, %s", show(about.Resource))
	}
	if len(about.Servers) == 0 {
		return nil, errors.New("the server's metadata do not name an authorization server")
	}
	return &about, nil
}

// issuerMetadata is the metadata of an authorization server (RFC 8414, section 2).
type issuerMetadata struct {
	Issuer     string   `json:"issuer"`
	Authorize  string   `json:"authorization_endpoint"`
	Token      string   `json:"token_endpoint"`
	Register   string   `json:"registration_endpoint"`
	Scopes     []string `json:"scopes_supported"`
	Responses  []string `json:"response_types_supported"`
	Methods    []string `json:"token_endpoint_auth_methods_supported"`
	Challenges []string `json:"code_challenge_methods_supported"`
	Documents  bool     `json:"client_id_metadata_document_supported"`
	NamesSelf  bool     `json:"authorization_response_iss_parameter_supported"`
}

// issuer reads the metadata of an authorization server, at the places and in the order of
// MCP, "Authorization Server Metadata Discovery".
func (f *fetcher) issuer(ctx context.Context, s remote, issuer string) (*Endpoints, error) {
	u, err := s.endpoint("issuer of the authorization server", issuer)
	if err != nil {
		return nil, err
	}
	if u.RawQuery != "" || u.ForceQuery {
		return nil, fmt.Errorf("the issuer of the authorization server %s contains a query", show(issuer))
	}
	root, path := origin(u), strings.TrimSuffix(u.EscapedPath(), "/")
	var absent error
	for _, address := range slices.Compact([]string{
		root + "/.well-known/oauth-authorization-server" + path,
		root + "/.well-known/openid-configuration" + path,
		root + path + "/.well-known/openid-configuration",
	}) {
		from, err := url.Parse(address)
		if err != nil {
			return nil, err
		}
		var about issuerMetadata
		err = f.document(ctx, from, &about)
		if errors.Is(err, errAbsent) {
			absent = err
			continue
		}
		if err != nil {
			return nil, err
		}
		e, err := about.check(s, issuer)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", show(address), err)
		}
		return e, nil
	}
	return nil, fmt.Errorf("the authorization server %s has no metadata: %w", show(issuer), absent)
}

// check returns the endpoints in the metadata, if the metadata belong to the issuer and can
// be used.
func (m *issuerMetadata) check(s remote, issuer string) (*Endpoints, error) {
	if m.Issuer != issuer { // RFC 8414, section 3.3: otherwise one issuer could speak for another
		return nil, fmt.Errorf("the metadata are those of another issuer, %s", show(m.Issuer))
	}
	if !slices.Contains(m.Challenges, "S256") { // MCP, "Authorization Code Protection"
		return nil, errors.New("the authorization server does not support PKCE with S256, so another program could use a stolen code")
	}
	if len(m.Responses) > 0 && !slices.Contains(m.Responses, "code") {
		return nil, errors.New("the authorization server does not issue authorization codes")
	}
	e := &Endpoints{Issuer: issuer, Methods: m.Methods, Scopes: m.Scopes, Documents: m.Documents, NamesSelf: m.NamesSelf}
	for _, p := range []struct {
		name, text string
		to         *string
	}{{"authorization_endpoint", m.Authorize, &e.Authorize}, {"token_endpoint", m.Token, &e.Token}, {"registration_endpoint", m.Register, &e.Register}} {
		if p.text == "" && p.to == &e.Register {
			continue
		}
		if _, err := s.endpoint(p.name, p.text); err != nil {
			return nil, err
		}
		*p.to = p.text
	}
	return e, nil
}
