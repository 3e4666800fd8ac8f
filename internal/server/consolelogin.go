package server

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"

	"belljar.dev/internal/console"
	"belljar.dev/internal/gateway"
	"belljar.dev/mcp/upstream"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// Login begins a login at a server that has an instance for the tenant in the place.
func (v *consoleUpstreams) Login(ctx context.Context, at console.LoginTarget, by, redirect string) (*console.UpstreamLogin, error) {
	for _, p := range v.handlers.gateways() {
		known := func(s gateway.Status) bool {
			return s.Server == at.Name && cmp.Or(s.Tenant, policies.LocalTenant) == at.Tenant
		}
		if p.Workspace != at.Place || !slices.ContainsFunc(p.gateway.Status(), known) {
			continue
		}
		pending, err := gateway.StartLogin(ctx, p.gatewayConfig(), at.Tenant, at.Name, redirect)
		if err != nil {
			return nil, err
		}
		return &console.UpstreamLogin{
			URL: pending.URL(), Server: pending.Resource(), Issuer: pending.Issuer(), Answers: pending.Answers, Close: pending.Close,
			Receive: func(ctx context.Context, answer url.Values) error {
				if err := pending.Receive(ctx, answer); err != nil {
					return err
				}
				v.handlers.log.Info("a person logged in at an upstream", "upstream", at.Name, "tenant", at.Tenant, "by", by)
				v.handlers.audit.append(audit.Upstream{Event: "login", Upstream: at.Name, Tenant: at.Tenant, By: by})
				return nil
			},
		}, nil
	}
	return nil, fmt.Errorf("the server %s for the tenant %s: %w", upstream.Line(at.Name), upstream.Line(at.Tenant), upstream.ErrUnknown)
}
