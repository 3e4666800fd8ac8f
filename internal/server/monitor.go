package server

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"time"

	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/config"
	"belljar.dev/internal/front"
	"belljar.dev/internal/metrics"
	"belljar.dev/policies"
)

// monitor answers the requests of an operator's programs: whether the server runs, whether
// it accepts calls, and what it has counted.
type monitor struct {
	listener *front.Admin
	ready    *readiness
	meters   *meters
}

// openMonitor opens the admin listener, if the configuration has one. Without the listener,
// nothing is counted.
func (s *Server) openMonitor(ctx context.Context) error {
	if s.cfg.Service == nil || s.cfg.Service.Admin == "" && !s.cfg.Service.Inherited.Admin() {
		return nil
	}
	// a path that is not absolute is refused below
	if path, ok := front.AdminSocket(s.cfg.Service.Admin); ok && filepath.IsAbs(path) {
		all := func(policies.Mount) bool { return true } // boxes can connect to a socket in a read-only mount too
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

// run serves the admin listener until ctx ends.
func (m *monitor) run(ctx context.Context, s *Server) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /readyz", m.ready)
	mux.Handle("GET /metrics", m.meters.registry)
	if err := m.listener.Serve(ctx, mux); err != nil {
		s.Log.Error("probes and metrics are no longer answered", "err", err)
	}
}

// where returns the address of the admin listener as attributes for the log; nil without a
// listener.
func (m *monitor) where() []any {
	if m == nil {
		return nil
	}
	return []any{"admin", m.listener.Addr()}
}

// drains makes /readyz report why the server accepts no new clients.
func (m *monitor) drains(why string) {
	if m != nil {
		m.ready.draining.Store(&why)
	}
}

// newMeters makes the families of a server. Families with a function see the state of the
// server at each exposition.
func newMeters(s *Server) *meters {
	r := metrics.New("belljar_metrics_folded_total")
	tenant, tool := r.Label("tenant", mostTenants), r.Label("tool", mostTools)
	word := func(name string) *metrics.Label { return r.Label(name, mostWords) }
	verdict := word("verdict")
	m := &meters{
		registry: r, began: time.Now(),
		calls:     r.Counter("belljar_calls_total", "Calls that have ended, by the decision of the policy and by their outcome.", tool, verdict, word("outcome")),
		byTenant:  r.Counter("belljar_tenant_calls_total", "Calls that have ended, by tenant.", tenant, verdict),
		took:      r.Histogram("belljar_call_duration_seconds", "Time of calls, from their turn to their result. Exemplars have the ids of the call and of its trace.", callBounds, tool),
		phases:    r.Counter("belljar_call_phase_seconds_total", "Time that calls spent in their phases.", word("phase")),
		requests:  r.Counter("belljar_http_requests_total", "Requests that were answered, by route, method and class of status.", word("route"), word("method"), word("status")),
		logins:    r.Counter("belljar_logins_total", "Tokens that were checked, by result: ok, unavailable, or why they were refused.", word("result")),
		handovers: r.Counter("belljar_handovers_total", "How often the server was handed over: done, or failed in this process.", word("result")),
		limits:    r.Counter("belljar_limits_hit_total", "Requests and connections that were refused, by the limit that they exceeded.", word("limit")),
	}
	r.GaugeFunc("belljar_build_info", "The version of this program.", []*metrics.Label{word("version"), word("goversion")}, func(set metrics.Set) {
		set(1, buildinfo.Version(), runtime.Version())
	})
	m.addState(s, word("what"))
	m.addOpen(s, tenant, word("transport"))
	m.addLosses(s)
	r.AddProcess(m.began)
	return m
}

// addState adds the families about faults of a server.
func (m *meters) addState(s *Server, what *metrics.Label) {
	m.registry.GaugeFunc("belljar_ready", "1 if the server takes calls, else 0; /readyz says why.", nil, func(set metrics.Set) {
		if s.monitor.ready.look().Ready {
			set(1)
		} else {
			set(0)
		}
	})
	m.registry.GaugeFunc("belljar_fault", "1 for each fault of the server; /readyz says more.", []*metrics.Label{what}, func(set metrics.Set) {
		faults := make(map[string]bool)
		for _, f := range s.monitor.ready.faults() {
			faults[f.What] = true
		}
		for name := range faults {
			set(1, name)
		}
	})
	m.registry.GaugeFunc("belljar_certificate_expiry_timestamp_seconds", "When the certificate expires, in seconds since 1970.", nil, func(set metrics.Set) {
		if s.front != nil && !s.front.Expires().IsZero() {
			set(float64(s.front.Expires().Unix()))
		}
	})
}

// addOpen adds the families about what is open now.
func (m *meters) addOpen(s *Server, tenant, transport *metrics.Label) {
	m.registry.GaugeFunc("belljar_sessions_open", "Open sessions.", []*metrics.Label{tenant, transport}, func(set metrics.Set) {
		for _, one := range s.places.sessions() {
			set(1, one.Tenant, one.Transport)
		}
	})
	m.registry.GaugeFunc("belljar_calls_running", "Calls that run now.", []*metrics.Label{tenant}, func(set metrics.Set) {
		for _, one := range s.places.sessions() {
			set(float64(one.Calls), one.Tenant)
		}
	})
	m.registry.GaugeFunc("belljar_http_streams_open", "Answers over HTTP that are open streams.", nil, func(set metrics.Set) {
		set(float64(m.streams.Load()))
	})
	m.registry.GaugeFunc("belljar_boxes_open", "Open boxes.", []*metrics.Label{tenant}, func(set metrics.Set) {
		if s.sandbox == nil {
			return // a front of a fleet has no boxes
		}
		for _, b := range s.sandbox.Boxes() {
			set(1, b.Grant().Tenant())
		}
	})
}

// addLosses adds the families about records that were written, and about records and spans
// that were lost.
func (m *meters) addLosses(s *Server) {
	m.registry.CounterFunc("belljar_audit_records_total", "Records of the audit log that were written.", nil, func(set metrics.Set) {
		if s.audit != nil {
			set(float64(s.audit.log.Health().Written))
		}
	})
	m.registry.CounterFunc("belljar_audit_records_lost_total", "Records of the audit log that could not be written.", nil, func(set metrics.Set) {
		if s.audit != nil {
			set(float64(s.audit.log.Health().Lost))
		}
	})
	m.registry.CounterFunc("belljar_spans_lost_total", "Spans that did not reach the collector.", nil, func(set metrics.Set) {
		if s.tracer != nil {
			_, dropped := s.tracer.exporter.Counts()
			set(float64(dropped))
		}
	})
}
