package server

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"

	"belljar.dev/internal/config"
	"belljar.dev/internal/front"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// monitor is what an operator's programs ask a server: whether it lives, whether it takes
// calls, and what it has counted.
type monitor struct {
	listener *front.Admin
	ready    *readiness
	meters   *meters
}

// openMonitor opens the admin listener, if there is to be one. Without it, nothing is
// counted.
func (s *Server) openMonitor(ctx context.Context) error {
	if s.cfg.Service == nil || s.cfg.Service.Admin == "" && !s.cfg.Service.Inherited.Admin() {
		return nil
	}
	if path, ok := front.AdminSocket(s.cfg.Service.Admin); ok && filepath.IsAbs(path) { // another one is refused below
		all := func(policies.Mount) bool { return true } // a socket that is shown read-only answers as well
		place, _, err := config.Reached(filepath.Dir(path), s.workspaces(), s.Policy, all)
		switch {
		case err != nil:
			return fmt.Errorf("--admin %s: %w", s.cfg.Service.Admin, err)
		case place != "":
			return fmt.Errorf("--admin %s: it lies in %s, where an agent can reach it; choose another directory", s.cfg.Service.Admin, place)
		}
	}
	l, err := front.OpenAdmin(ctx, s.cfg.Service.Admin, s.cfg.Service.Inherited, s.Log)
	if err != nil {
		return err
	}
	s.opened.Do(l.Close)
	s.monitor = &monitor{listener: l, ready: &readiness{server: s}}
	s.monitor.meters = newMeters(s)
	if in := s.cfg.Service.Inherited; in != nil {
		s.monitor.meters.handovers.Add(float64(in.Handovers), "done")
	}
	return nil
}

// run answers until ctx ends.
func (m *monitor) run(ctx context.Context, s *Server) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /readyz", m.ready)
	mux.Handle("GET /metrics", m.meters.registry)
	if err := m.listener.Serve(ctx, mux); err != nil {
		s.Log.Error("probes and metrics are not answered any more", "err", err)
	}
}

// where is the address of the admin listener, for the log; nothing without one.
func (m *monitor) where() []any {
	if m == nil {
		return nil
	}
	return []any{"admin", m.listener.Addr()}
}

// drains has /readyz say why the server takes no new clients.
func (m *monitor) drains(why string) {
	if m != nil {
		m.ready.draining.Store(&why)
	}
}

// both gives each call to two tracers.
type both struct{ one, other mcp.Tracer }

// Traced gives a call to both.
func (b both) Traced(c mcp.Traced) {
	b.one.Traced(c)
	b.other.Traced(c)
}

// traced is what gets the phases of each call; nil for nothing. Either may be nil.
func traced(t *tracer, m *monitor) mcp.Tracer {
	switch {
	case m == nil && t == nil:
		return nil
	case m == nil:
		return t
	case t == nil:
		return m.meters
	}
	return both{t, m.meters}
}
