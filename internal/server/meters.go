package server

import (
	"cmp"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"belljar.dev/internal/auth"
	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/front"
	"belljar.dev/internal/metrics"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// Bounds of labels. With all of them reached, there are less than 3,000 series.
const (
	mostTenants = 64
	mostTools   = 100
	mostWords   = 32 // values of a label that are words of this program
)

// callBounds are the upper bounds of the buckets of the time of calls, in seconds. A call
// without a box takes less than the first, and common clients give up after a minute.
var callBounds = []float64{0.005, 0.025, 0.1, 0.25, 1, 2.5, 10, 30, 60, 300}

// meters counts what a server does. Labels have values of the policy, of the table of
// tools and of this program; no client makes one up.
type meters struct {
	registry *metrics.Registry
	began    time.Time

	calls     *metrics.Counter
	byTenant  *metrics.Counter
	took      *metrics.Histogram
	phases    *metrics.Counter
	requests  *metrics.Counter
	logins    *metrics.Counter
	limits    *metrics.Counter
	handovers *metrics.Counter
	streams   atomic.Int64 // that are open
}

// newMeters makes the families of a server. Those that are asked for at an exposition see
// the server as it is then.
func newMeters(s *Server) *meters {
	r := metrics.New("belljar_metrics_folded_total")
	tenant, tool := r.Label("tenant", mostTenants), r.Label("tool", mostTools)
	word := func(name string) *metrics.Label { return r.Label(name, mostWords) }
	verdict := word("verdict")
	m := &meters{
		registry: r, began: time.Now(),
		calls:     r.Counter("belljar_calls_total", "Calls that are over, by what the policy said and by what came of them.", tool, verdict, word("outcome")),
		byTenant:  r.Counter("belljar_tenant_calls_total", "Calls that are over, by tenant.", tenant, verdict),
		took:      r.Histogram("belljar_call_duration_seconds", "Time of calls, from their turn to their result. Exemplars have the ids of the call and of its trace.", callBounds, tool),
		phases:    r.Counter("belljar_call_phase_seconds_total", "Time that calls spent in their phases.", word("phase")),
		requests:  r.Counter("belljar_http_requests_total", "Requests that were answered, by route, method and class of status.", word("route"), word("method"), word("status")),
		logins:    r.Counter("belljar_logins_total", "Tokens that were checked, by result: ok, unavailable, or why they were refused.", word("result")),
		handovers: r.Counter("belljar_handovers_total", "How often the server was handed over: done, or failed in this process.", word("result")),
		limits:    r.Counter("belljar_limits_hit_total", "Requests and connections that were refused, by the limit that they were above.", word("limit")),
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

// addState adds families about what is wrong with a server.
func (m *meters) addState(s *Server, what *metrics.Label) {
	m.registry.GaugeFunc("belljar_ready", "1 if the server takes calls, else 0; /readyz says why.", nil, func(set metrics.Set) {
		if s.monitor.ready.look().Ready {
			set(1)
		} else {
			set(0)
		}
	})
	m.registry.GaugeFunc("belljar_fault", "1 for each thing that is wrong with the server; /readyz says more.", []*metrics.Label{what}, func(set metrics.Set) {
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

// addOpen adds families of what is open now.
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
		for _, b := range s.sandbox.Boxes() {
			set(1, b.Grant().Tenant())
		}
	})
}

// addLosses adds families of what was written down, and what could not be.
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

// Traced counts a call that is over.
func (m *meters) Traced(c mcp.Traced) {
	tool, verdict := c.Call.Tool, c.Decision.Verdict.String()
	outcome := "ok"
	switch {
	case c.Err != nil && c.Decision.Verdict != policies.Allow: // the policy was not asked
		verdict, outcome = "none", "error"
	case c.Decision.Verdict != policies.Allow:
		outcome = "refused"
	case c.Err != nil:
		outcome = "error"
	case c.Result != nil && c.Result.IsError:
		outcome = "failed"
	}
	m.calls.Add(1, tool, verdict, outcome)
	m.byTenant.Add(1, c.Call.Session.Tenant(), verdict)
	m.took.Observe(c.End.Sub(c.Start).Seconds(), []metrics.Pair{{Name: "trace_id", Value: c.Call.TraceID}, {Name: "call_id", Value: c.Call.ID}}, tool)
	for _, p := range c.Phases {
		m.phases.Add(p.End.Sub(p.Start).Seconds(), p.Name)
	}
}

// Answered counts a request over HTTP.
func (m *meters) Answered(a front.Answered) {
	m.requests.Add(1, cmp.Or(a.Route, "none"), a.HTTP, string('0'+rune(a.Status/100))+"xx")
}

// Streaming counts open streams.
func (m *meters) Streaming(change int) { m.streams.Add(int64(change)) }

// Limited counts what a limit refused.
func (m *meters) Limited(limit string) { m.limits.Add(1, limit) }

// login counts a token that was checked.
func (m *meters) login(err error) {
	result := "ok"
	if refusal, ok := errors.AsType[*auth.Refusal](err); ok {
		result = string(refusal.Reason)
	} else if err != nil {
		result = "unavailable"
	}
	m.logins.Add(1, result)
}
