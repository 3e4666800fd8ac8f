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

// Bounds of labels. If all of them are reached, there are fewer than 3,000 series.
const (
	mostTenants = 64
	mostTools   = 100
	mostWords   = 32 // most values of a label whose values are words of this program
)

// callBounds are the upper bounds of the buckets for the time of calls, in seconds. A call
// without a box takes less than the first bound, and common clients give up after a minute.
var callBounds = []float64{0.005, 0.025, 0.1, 0.25, 1, 2.5, 10, 30, 60, 300}

// meters counts what a server does. The values of labels come from the policy, from the
// table of tools and from this program; no client can choose them.
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
	streams   atomic.Int64 // number of open streams
}

// Traced counts a call that has ended.
func (m *meters) Traced(c mcp.Traced) {
	tool, verdict := c.Call.Tool, c.Decision.Verdict.String()
	outcome := "ok"
	switch {
	case c.Err != nil && c.Decision.Verdict != policies.Allow: // the policy did not decide about the call
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

// Streaming changes the number of open streams by change.
func (m *meters) Streaming(change int) { m.streams.Add(int64(change)) }

// Limited counts a request or connection that a limit has refused.
func (m *meters) Limited(limit string) { m.limits.Add(1, limit) }

// login counts a token that was checked, by the result err.
func (m *meters) login(err error) {
	result := "ok"
	if refusal, ok := errors.AsType[*auth.Refusal](err); ok {
		result = string(refusal.Reason)
	} else if err != nil {
		result = "unavailable"
	}
	m.logins.Add(1, result)
}
