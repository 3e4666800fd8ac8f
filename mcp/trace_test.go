package mcp_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"belljar.dev/mcp"
)

// tracer remembers.
type tracer struct {
	mu  sync.Mutex
	got []mcp.Traced
}

func (t *tracer) Traced(c mcp.Traced) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.got = append(t.got, c)
}

// A call belongs to the span that its _meta names, whichever way it came; a
// text that is not a traceparent counts as missing.
func TestTraceParent(t *testing.T) {
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	tr := &tracer{}
	c := newToy(t, func(cfg *mcp.Config) { cfg.Trace = tr }).connect(t)
	c.greet(revLegacy)
	for parent, want := range map[string]mcp.TraceParent{
		"00-" + trace + "-" + span + "-01":                    {TraceID: trace, SpanID: span, Sampled: true, State: "a=1"},
		"00-" + trace + "-" + span + "-00":                    {TraceID: trace, SpanID: span, State: "a=1"},
		"cc-" + trace + "-" + span + "-01-later":              {TraceID: trace, SpanID: span, Sampled: true, State: "a=1"},
		"00-" + trace + "-" + span + "-01-later":              {},
		"ff-" + trace + "-" + span + "-01":                    {},
		"00-" + strings.ToUpper(trace) + "-" + span + "-01":   {},
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":  {},
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01": {},
		"00-" + trace + "-" + span:                            {},
		"":                                                    {},
	} {
		for _, also := range []string{"", `"another":1,`} { // directly, and through the sdk
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{%s"name":"echo","arguments":{"text":"hi"},"_meta":{"traceparent":%q,"tracestate":"a=1"}}}`, also, parent))
			c.next()
			tr.mu.Lock()
			got := tr.got[len(tr.got)-1]
			tr.mu.Unlock()
			if got.Parent != want {
				t.Errorf("%q: got %+v, want %+v", parent, got.Parent, want)
			}
			if id := got.Call.TraceID; len(id) != 32 || want.TraceID != "" && id != want.TraceID {
				t.Errorf("%q: the call's trace is %q", parent, id)
			}
			if len(got.Phases) != 1 || got.Phases[0].Name != mcp.PhaseDecide || got.Start.After(got.Phases[0].Start) || got.End.Before(got.Phases[0].End) {
				t.Errorf("%q: got %+v", parent, got.Phases)
			}
		}
	}
}

// Every call has one, however it ends.
func TestTraceOfEveryEnd(t *testing.T) {
	tr := &tracer{}
	c := newToy(t, func(cfg *mcp.Config) { cfg.Trace = tr }).connect(t)
	c.greet(revLegacy)
	for _, params := range []string{`{"text":"forbidden"}`, `{"text":"ask"}`, `{"text":5}`, `{"text":"a"}`} {
		c.send(call("1", "echo", params))
		c.next()
	}
	for _, tool := range []string{"panic", "fail"} {
		c.send(call("1", tool, "{}"))
		c.next()
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var ends []string
	for _, got := range tr.got {
		failed := got.Err != nil || got.Result.IsError
		ends = append(ends, fmt.Sprintf("%s %v %v", got.Call.Tool, got.Decision.Verdict, failed))
	}
	want := "echo deny true, echo ask true, echo deny true, echo allow false, panic allow true, fail allow true"
	if got := strings.Join(ends, ", "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
