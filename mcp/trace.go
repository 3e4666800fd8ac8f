package mcp

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
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

// TraceParent is the span that a request belongs to, from the request's _meta
// (SEP-414, W3C Trace Context).
type TraceParent struct {
	TraceID, SpanID string // in lower-case hexadecimal digits; empty for none
	Sampled         bool
	State           string // tracestate, unread
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

// trace gathers the phases of a call. A nil one gathers none.
type trace struct {
	mu     sync.Mutex
	phases []Phase // guarded by mu
}

// startTrace begins the trace of a call.
func startTrace(c *Call) {
	c.trace = new(trace)
	if c.TraceID == "" {
		id := make([]byte, 16)
		rand.Read(id)
		c.TraceID = hex.EncodeToString(id)
	}
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
