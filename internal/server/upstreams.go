package server

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/gateway"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/sandbox/egress"
)

// onceWait is the time for which a command with only one call waits for a server that
// starts. Such a command does not get the notification that the tools of the server are
// ready.
const onceWait = time.Minute

// openUpstreams opens the gateway to other people's servers, if the place has an MCP server
// that can list their tools. It starts none of these servers.
func (p *place) openUpstreams(context.Context) error {
	if p.mcp == nil {
		return nil
	}
	s := p.server
	cache := filepath.Join(p.State, "upstreams")
	if p.State == "" {
		spool, err := s.host.spool()
		if err != nil {
			return err
		}
		if cache, err = os.MkdirTemp(spool, "belljar-upstreams-"); err != nil {
			return err
		}
		p.opened.Do(func() {
			if err := os.RemoveAll(cache); err != nil {
				p.Log.Error("the directory of what was fetched for upstreams cannot be removed", "dir", cache, "err", err)
			}
		})
	}
	cfg := p.gatewayConfig()
	cfg.Server, cfg.Boxes, cfg.Cache, cfg.Version = p.mcp, p.boxes, cache, buildinfo.Version()
	if s.cfg.Service == nil {
		cfg.Wait = onceWait
	}
	var err error
	if p.gateway, err = gateway.New(cfg); err != nil {
		return err
	}
	p.opened.Do(p.gateway.Close)
	return nil
}

// gatewayConfig returns the part of a gateway's configuration that a login needs too.
func (p *place) gatewayConfig() gateway.Config {
	s := p.server
	cfg := gateway.Config{
		Workspace: p.Workspace, Policy: p.gate.now.Load, Files: s.cfg.Upstreams,
		Trusted: func(file string) bool { return s.host.boxes().Check(file) == nil },
		Pins:    pin.NewBook(p.books.kept), Logins: gateway.NewLogins(p.State, p.books.kept),
		Secret: s.host.secret, Allowed: s.sandbox.Allowance, Log: p.Log,
	}
	if s.audit != nil {
		cfg.Record = func(_ string, r egress.Record) { s.audit.egress("upstream", r) }
	}
	return cfg
}

// LoginUpstream has a person log in at another person's remote server, for the tenant of
// the command. open gets the URL for the person.
func (s *Server) LoginUpstream(ctx context.Context, name string, open func(url string)) error {
	return gateway.Login(ctx, s.home.gatewayConfig(), s.Tenant, name, open)
}

// reloadUpstreams reads the files of other people's servers again.
func (p *place) reloadUpstreams() {
	if p.gateway == nil {
		return
	}
	if err := p.gateway.Reload(); err != nil {
		p.Log.Error("the files of upstreams cannot be read again; the servers stay as they are", "err", err)
	}
}
