package mcp

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"

	"belljar.dev/policies"
)

// Tracer gets the phases of each call once the call is over. It is called from
// many goroutines, and must not block.
type Tracer interface {
	Traced(t Traced)
}

// Traced is a complete call, from its beginning to its end.
type Traced struct {
	Call     Call
	Decision policies.Decision
	Result   *Result // nil if Err is not nil
	Err      error
	// code of the JSON-RPC error that is the answer, in the era of the client; 0 for a Result,
	// also if the tool was called as a method, where a failed Result is sent as an error
	Code       int
	Start, End time.Time
	Parent     TraceParent // span that the call belongs to; zero if the client sent none and no HTTP request with a span made the call
	Phases     []Phase     // phases in the order of their ends, at most maxPhases
}

// Phase is a part of a call.
type Phase struct {
	Name       string
	Start, End time.Time
}

// The phases of calls.
const (
	PhaseDecide = "policy.decide"
	PhaseAsk    = "approval.wait"
	PhaseStart  = "sandbox.start"
	PhaseRun    = "sandbox.run"
)

// maxPhases bounds the phases of a call.
const maxPhases = 32

// TraceParent is a span that a call or an HTTP request belongs to: the one in the call's
// _meta (SEP-414), the one in the headers of the request (W3C Trace Context in both), or the
// span of the HTTP request itself, which is then Local.
type TraceParent struct {
	TraceID, SpanID string // lower-case hexadecimal digits; empty if there is no such span
	Sampled         bool
	State           string // tracestate, which belljar does not interpret
	Local           bool   // the span is of this process
}

// maxTraceState bounds a tracestate. A longer one is dropped as a whole. Implementations
// should propagate at least 512 characters (W3C Trace Context, section 3.3.1.5).
const maxTraceState = 512

// readTraceParent parses a traceparent (W3C Trace Context, section 3.2). The result is zero
// if it is not valid.
func readTraceParent(text, state string) TraceParent {
	const short = len("00-") + 32 + len("-") + 16 + len("-00")
	if len(text) < short || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return TraceParent{}
	}
	version, trace, span, flags := text[:2], text[3:35], text[36:52], text[53:55]
	for _, part := range []string{version, trace, span, flags} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return TraceParent{}
		}
	}
	// Later versions may have further fields after a hyphen; version ff is not valid.
	odd := version == "ff" || version == "00" && len(text) != short || len(text) > short && text[short] != '-'
	if odd || strings.Trim(trace, "0") == "" || strings.Trim(span, "0") == "" {
		return TraceParent{}
	}
	bits, err := hex.DecodeString(flags)
	if err != nil {
		return TraceParent{}
	}
	if len(state) > maxTraceState || strings.ContainsFunc(state, func(r rune) bool { return r < ' ' || r > '~' }) {
		state = ""
	}
	return TraceParent{TraceID: trace, SpanID: span, Sampled: bits[0]&1 != 0, State: state}
}

// Span is the span of an HTTP request that made a call. It contains no part of the request
// except the trace context.
type Span struct {
	TraceID, SpanID string
	Parent          TraceParent // zero if the client sent none
}

// servedSpan is the span of an HTTP request, before it is known whether the request makes a
// call.
type servedSpan struct {
	id, trace string      // trace is the parent's trace, or a new one
	parent    TraceParent // parent from the headers
	used      bool        // guarded by Served.mu: a call belongs to it
	over      bool        // guarded by Served.mu: the answer has ended
}

// StartSpan makes the calls of a POST belong to a span of the request. The span's parent is
// in the request's headers (W3C Trace Context, section 3), if they contain one. A call with
// a parent in its _meta belongs to that parent instead. StartSpan must be called before the
// handler.
func (s *Served) StartSpan(r *http.Request) {
	if r.Method != http.MethodPost {
		return // streams and WebSockets outlive their calls
	}
	parent := readTraceParent(r.Header.Get("Traceparent"), strings.Join(r.Header.Values("Tracestate"), ","))
	s.span = &servedSpan{id: newID(8), trace: cmp.Or(parent.TraceID, newID(16)), parent: parent}
}

// EndSpan returns the span of a request whose answer has ended. ok is false if the request
// made no call, or if the trace was begun without sampling. A call that begins later does
// not belong to the span.
func (s *Served) EndSpan() (_ Span, ok bool) {
	if s.span == nil {
		return Span{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.span.over = true
	span, c := Span{TraceID: s.span.trace, SpanID: s.span.id, Parent: s.span.parent}, s.call.Load()
	switch {
	case c == nil && !s.span.used:
		return Span{}, false
	case !s.span.used && span.Parent.TraceID == "": // only the call has a parent, which is then the request's parent too
		span.TraceID, span.Parent = c.trace, c.parent
	}
	return span, span.Parent.TraceID == "" || span.Parent.Sampled
}

// parentOf returns the span that a call with parent in its _meta belongs to. A call may
// begin after its request is over, because its client went away; it then belongs to the
// request's parent.
func (s *Served) parentOf(parent TraceParent) TraceParent {
	if parent.TraceID != "" || s == nil || s.span == nil {
		return parent
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.span.over {
		return s.span.parent
	}
	s.span.used = true
	from := s.span.parent
	return TraceParent{TraceID: s.span.trace, SpanID: s.span.id, Sampled: from.TraceID == "" || from.Sampled, State: from.State, Local: true}
}

// trace gathers the phases of a call.
type trace struct {
	mu     sync.Mutex
	phases []Phase // guarded by mu
}

// startTrace begins the trace of a call.
func startTrace(c *Call) {
	c.trace = new(trace)
	if c.TraceID == "" {
		c.TraceID = newID(16)
	}
}

// newID returns n random bytes in hexadecimal digits. n is 16 for a trace, 8 for a span.
func newID(n int) string {
	id := make([]byte, n)
	rand.Read(id)
	return hex.EncodeToString(id)
}

// Phase begins a phase of the call, and returns the function that ends it. If the call is
// not traced it does nothing.
func (c Call) Phase(name string) (end func()) {
	t := c.trace
	if t == nil {
		return func() {}
	}
	started := time.Now()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if len(t.phases) < maxPhases {
			t.phases = append(t.phases, Phase{name, started, time.Now()})
		}
	}
}

// endTrace passes a call that is over to the tracer.
func (g *callGate) endTrace(t Traced) {
	t.End = time.Now()
	t.Call.trace.mu.Lock()
	t.Phases = t.Call.trace.phases
	t.Call.trace.mu.Unlock()
	g.cfg.Trace.Traced(t)
}
