package mcp

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// Tracer gets the phases of each call once the call is over. It is called from
// many goroutines, and must not block.
type Tracer interface {
	Traced(t Traced)
}

// Traced is a call from its first moment to its last.
type Traced struct {
	Call       Call
	Decision   policies.Decision
	Result     *Result // nil where there is an error
	Err        error
	Code       int // of the JSON-RPC error that is the answer; 0 for a result
	Start, End time.Time
	Parent     TraceParent // of the call; zero where the client sent none
	Phases     []Phase     // in the order in which they ended, at most maxPhases
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

// TraceParent is the span that a request belongs to: from the request's _meta
// (SEP-414, W3C Trace Context), or else the span of the HTTP request itself.
type TraceParent struct {
	TraceID, SpanID string // in lower-case hexadecimal digits; empty for none
	Sampled         bool
	State           string // tracestate, unread
	Local           bool   // the span is of this process
}

// maxTraceState bounds what is taken of a tracestate: the 512 bytes that all
// must be able to carry (W3C Trace Context, section 3.3.1.5).
const maxTraceState = 512

// readTraceParent reads a traceparent (W3C Trace Context, section 3.2). The
// result is zero for one that is not valid.
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
	// Later versions may have more behind a hyphen; version ff is not valid.
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

// Span is the span of an HTTP request that brought a call. It contains no part of the request but
// the trace context.
type Span struct {
	TraceID, SpanID string
	Parent          TraceParent // zero for a client that sent none
}

// servedSpan is the span of an HTTP request, before it is known whether it brings a call.
type servedSpan struct {
	id, trace string      // trace is that of the parent, or a new one
	parent    TraceParent // from the headers
	used      bool        // guarded by Served.mu: a call belongs to it
	over      bool        // guarded by Served.mu: the answer has ended
}

// StartSpan has the calls of a POST belong to a span of the request, whose parent is in its headers
// (W3C Trace Context, section 3). A call with a parent in its _meta belongs to that instead.
// StartSpan is called before the handler is.
func (s *Served) StartSpan(r *http.Request) {
	if r.Method != http.MethodPost {
		return // streams and WebSockets outlive their calls
	}
	parent := readTraceParent(r.Header.Get("Traceparent"), strings.Join(r.Header.Values("Tracestate"), ","))
	s.span = &servedSpan{id: newID(8), trace: cmp.Or(parent.TraceID, newID(16)), parent: parent}
}

// EndSpan returns the span of a request whose answer has ended. ok is false if it brought no call,
// or if the beginner of the trace did not sample it. A call that begins later does not belong to it.
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
	case !s.span.used && span.Parent.TraceID == "": // only its calls have a parent: it is that of the request, too
		span.TraceID, span.Parent = c.trace, c.parent
	}
	return span, span.Parent.TraceID == "" || span.Parent.Sampled
}

// parentOf returns the span that a call belongs to whose _meta has parent. A call that begins
// when its request is over, since its client went away, belongs where the request did.
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

// trace gathers the phases of a call. A nil one gathers none.
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

// newID returns n random bytes: 16 for a trace, 8 for a span.
func newID(n int) string {
	id := make([]byte, n)
	rand.Read(id)
	return hex.EncodeToString(id)
}

// Phase begins a part of the call, for whoever traces it, and returns what ends
// it. Without a tracer it does nothing.
func (c Call) Phase(name string) (end func()) {
	return c.trace.phase(name)
}

func (t *trace) phase(name string) (end func()) {
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

// endTrace tells the tracer of a call that is over.
func (g *callGate) endTrace(t Traced) {
	t.End = time.Now()
	t.Call.trace.mu.Lock()
	t.Phases = t.Call.trace.phases
	t.Call.trace.mu.Unlock()
	if bad, ok := errors.AsType[*wire.Error](t.Err); ok {
		t.Code = int(bad.Code(wire.Legacy))
	}
	g.cfg.Trace.Traced(t)
}
