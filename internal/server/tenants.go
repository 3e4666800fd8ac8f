package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/time/rate"

	"belljar.dev/internal/auth"
	"belljar.dev/internal/config"
	"belljar.dev/internal/hostexec"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// tokenFault is the reason why the token of a tenant is not known.
type tokenFault struct {
	tenant string
	err    error
}

// readTokens reads the digests of the tokens of a policy's tenants, from the places where
// the operator keeps them. If two tenants have the same token, it is accepted for neither
// of them: it would give one tenant access to the work of the other.
func readTokens(ctx context.Context, p *policies.Policy, boxes hostexec.Boxes) (all []auth.Digest, faults []tokenFault) {
	for _, name := range p.Tenants() {
		t, _ := p.Tenant(name)
		if t.Token.Env == "" && t.Token.File == "" {
			continue
		}
		one, err := readToken(ctx, "tenant", name, t.Token, boxes)
		if err != nil {
			faults = append(faults, tokenFault{name, err})
			continue
		}
		all = append(all, one)
	}
	all, shared := distinct("tenant", all)
	return all, append(faults, shared...)
}

// distinct returns the digests that only one owner has. The owners are tenants or people,
// as kind says.
func distinct(kind string, all []auth.Digest) (one []auth.Digest, faults []tokenFault) {
	owners := make(map[[sha256.Size]byte]string, len(all))
	twice := make(map[[sha256.Size]byte]bool)
	for _, one := range all {
		if other, taken := owners[one.Sum]; taken {
			twice[one.Sum] = true
			faults = append(faults, tokenFault{one.Tenant, fmt.Errorf("token of %s %s: %s %s has the same; give each its own", kind, one.Tenant, kind, other)})
			continue
		}
		owners[one.Sum] = one.Tenant
	}
	return slices.DeleteFunc(all, func(t auth.Digest) bool { return twice[t.Sum] }), faults
}

// readToken reads the digest of the token of a tenant or a person.
func readToken(ctx context.Context, kind, name string, from policies.Secret, boxes hostexec.Boxes) (t auth.Digest, err error) {
	text, err := config.ReadSecret(ctx, "token of "+kind+" "+name, from, hostexec.Program{Boxes: boxes})
	if err != nil {
		return t, err
	}
	sum, err := hex.DecodeString(text)
	if err != nil || len(sum) != sha256.Size {
		// The error does not contain the text, which may be the token itself.
		return t, fmt.Errorf("token of %s %s: want the SHA-256 of the token in 64 hexadecimal digits, which `printf %%s TOKEN | sha256sum` prints", kind, name)
	}
	return auth.Digest{Tenant: name, Sum: [sha256.Size]byte(sum)}, nil
}

// tenantTokens returns the tokens of a policy's tenants, or an error if one of them is not
// known. Only servers over HTTP need tokens. without reports that the state directory for
// belljar's own tokens is missing.
func tenantTokens(ctx context.Context, p *policies.Policy, boxes hostexec.Boxes, without bool) ([]auth.Digest, error) {
	all, faults := readTokens(ctx, p, boxes)
	switch {
	case len(faults) > 0:
		return nil, faults[0].err
	case without && len(all)+len(p.Login().Issuers()) == 0 && len(p.Tenants()) > 0:
		return nil, errors.New("no tenant of the policy has a token, and without a state directory none can be made, so nobody could connect; write one under tenants, such as token: \"${env:TOKEN_SHA256}\"")
	}
	return all, nil
}

// changedTokens returns the tenants that have another token than before, or no token any
// more.
func changedTokens(before, now []auth.Digest) (changed []string) {
	had := make(map[auth.Digest]bool, len(before))
	for _, t := range before {
		had[t] = true
	}
	for _, t := range now {
		if !had[t] {
			changed = append(changed, t.Tenant)
		}
		delete(had, t)
	}
	for t := range had {
		changed = append(changed, t.Tenant)
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}

// rotate reads the tokens of the tenants of the policy in force again, and accepts only
// these. A token that cannot be read is not accepted, since it may have been removed. The
// log contains the tenants whose tokens have changed, and never a token.
func (r *reloader) rotate(ctx context.Context) {
	holds := r.gate.now.Load()
	if r.front == nil || len(holds.Tenants()) == 0 {
		return
	}
	now, faults := readTokens(ctx, holds, config.Boxes(holds, r.workspaces(), r.state))
	for _, f := range faults {
		r.log.Error("the token of a tenant is not known, so no client can connect as it", "tenant", f.tenant, "err", f.err)
	}
	if r.hold(now) {
		r.changed(r.places.layout.Load()) // ends the streams of the earlier tokens
	}
}

// hold replaces the accepted tokens, and logs the tenants whose tokens have changed. It
// reports whether any token has changed.
func (r *reloader) hold(now []auth.Digest) bool {
	if r.front == nil {
		return false
	}
	before := r.gate.login.SetDigests(now)
	changed := changedTokens(before, now)
	if len(changed) == 0 {
		return false
	}
	tenants := strings.Join(changed, ", ")
	r.log.Info("the tokens of tenants were changed or removed", "tenants", tenants)
	p := r.gate.now.Load()
	r.audit.policy("tokens", cmp.Or(r.file, config.BuiltinPolicy), p, p, "changed or removed: "+tenants)
	return true
}

// openTenants checks --tenant, and reads the tokens for a server over HTTP.
func (s *Server) openTenants(ctx context.Context) error {
	if _, known := s.Policy.Tenant(s.Tenant); !known && s.Tenant != policies.LocalTenant {
		return fmt.Errorf("tenant %s: the policy %s has no tenant with this name; name another one with --tenant, or add it under tenants", s.Tenant, s.PolicyName)
	}
	s.login = newLogin(s)
	s.gate.login = s.login
	s.opened.Do(s.login.Close)
	if s.cfg.linked() {
		s.login.linked = true
		return nil // the fronts of a worker have the tokens
	}
	if !s.cfg.http() || len(s.Policy.Tenants()) == 0 {
		return nil
	}
	if s.Tenant != policies.LocalTenant {
		return errors.New("--tenant goes with stdio: over HTTP the token of a client determines its tenant")
	}
	tokens, err := tenantTokens(ctx, s.Policy, config.Boxes(s.Policy, s.workspaces(), s.State), s.State == "")
	if err != nil {
		return fmt.Errorf("policy %s: %w", s.PolicyName, err)
	}
	s.gate.login.SetDigests(tokens)
	if err := s.gate.login.Load(ctx); err != nil {
		return fmt.Errorf("read the tokens in the state directory: %w", err)
	}
	s.gate.login.Trust(s.Policy)
	if err := s.gate.login.Prepare(ctx); err != nil {
		return fmt.Errorf("policy %s: %w", s.PolicyName, err)
	}
	return nil
}

// newLogin returns the login of a server. It reads no token.
func newLogin(s *Server) *login {
	known := func(tenant string) bool {
		_, named := s.gate.now.Load().Tenant(tenant)
		return named
	}
	cfg := auth.Config{Known: known, Needed: s.gate.Named, Log: s.Log}
	if s.State != "" {
		cfg.Book = auth.NewBook(s.State, s.kept, nil)
	}
	return &login{Authenticator: auth.New(cfg), server: s, tickets: mcp.NewTickets(), few: rate.NewLimiter(refusalsPerSecond, refusalBurst)}
}

// tokensFor returns the tokens of a policy that is to replace another policy in a server
// over HTTP, or an error if it cannot replace it.
func tokensFor(ctx context.Context, p, before *policies.Policy, boxes hostexec.Boxes, without bool) ([]auth.Digest, error) {
	if len(p.Tenants()) == 0 && len(before.Tenants()) > 0 {
		return nil, fmt.Errorf("policy %s: it names no tenants any more, and would let in every client without a token; restart the server if that is intended", p.Name())
	}
	return tenantTokens(ctx, p, boxes, without)
}
