package server

import (
	"context"
	"os"
	"path/filepath"

	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/gateway"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/sandbox/egress"
)

// openUpstreams opens other people's servers, once there is a server that lists their tools.
// Nothing is started.
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
				p.Log.Error("what was fetched for upstreams is left", "dir", cache, "err", err)
			}
		})
	}
	cfg := gateway.Config{
		Server: p.mcp, Boxes: p.boxes, Workspace: p.Workspace, Policy: p.gate.now.Load, Files: s.cfg.Upstreams,
		Trusted: func(file string) bool { return s.host.boxes().Check(file) == nil },
		Cache:   cache, Pins: pin.NewBook(p.books.kept), Secret: s.host.secret, Allowed: s.sandbox.Allowance,
		Version: buildinfo.Version(), Log: p.Log,
	}
	if s.audit != nil {
		cfg.Record = func(_ string, r egress.Record) { s.audit.egress("upstream", r) }
	}
	var err error
	if p.gateway, err = gateway.New(cfg); err != nil {
		return err
	}
	p.opened.Do(p.gateway.Close)
	return nil
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
