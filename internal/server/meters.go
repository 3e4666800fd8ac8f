package server

import (
	"cmp"
	"errors"
	"sync/atomic"
	"time"

	"belljar.dev/internal/auth"
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
