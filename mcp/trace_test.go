package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"belljar.dev/mcp"
	"belljar.dev/mcp/wire"
)

// tracer keeps the calls that it gets.
type tracer struct {
	mu  sync.Mutex
	got []mcp.Traced
}

func (t *tracer) Traced(c mcp.Traced) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.got = append(t.got, c)
}

// A call belongs to the span that its _meta names, over every transport. A text that is not
// a valid traceparent counts as missing.
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

// A call over HTTP belongs to the span of its request, and that span belongs to the span in
// the request's headers, in both eras. A span in _meta takes precedence.
func TestSpanOfTheRequest(t *testing.T) {
	const trace, other, span, far = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7", "b7ad6b7169203331"
	header, meta := "00-"+trace+"-"+span+"-01", "00-"+other+"-"+far+"-01"
	up, aside := mcp.TraceParent{TraceID: trace, SpanID: span, Sampled: true}, mcp.TraceParent{TraceID: other, SpanID: far, Sampled: true}
	tr := &tracer{}
	var mu sync.Mutex
	var spans []mcp.Span
	over := make(chan struct{}, 4) // gets a value for each request whose handler has returned
	ty := newToy(t, func(cfg *mcp.Config) { cfg.Trace = tr })
	h := ty.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, served := mcp.WithServed(r.Context())
		served.StartSpan(r)
		h.ServeHTTP(w, r.WithContext(ctx))
		if span, ok := served.EndSpan(); ok {
			mu.Lock()
			spans = append(spans, span)
			mu.Unlock()
		}
		over <- struct{}{}
	}))
	defer func() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // cancelled, so that Shutdown does not wait
		_ = ty.Shutdown(ctx)
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	}()
	at := &site{toy: ty, t: t, url: server.URL}
	legacy := at.greet()
	<-over // the request initialize
	<-over // the notification that follows initialize
	for era, headers := range map[string][]string{"legacy": legacy, "modern": modernHeaders("tools/call", "echo")} {
		message := call("1", "echo", `{"text":"hi"}`)
		if era == "modern" {
			message = modern("1", "tools/call", `"name":"echo","arguments":{"text":"hi"},`)
		}
		for name, tt := range map[string]struct {
			header, meta string
			parent       mcp.TraceParent // parent of the request's span
			nested       bool            // the call belongs to the request's span
			spans        int
		}{
			"nothing":           {"", "", mcp.TraceParent{}, true, 1},
			"a header":          {header, "", up, true, 1},
			"not sampled":       {header[:len(header)-1] + "0", "", mcp.TraceParent{}, true, 0},
			"a bad header":      {"00-x", "", mcp.TraceParent{}, true, 1},
			"_meta":             {"", meta, aside, false, 1},
			"a header and meta": {header, meta, up, false, 1},
		} {
			mu.Lock()
			spans = nil
			mu.Unlock()
			sent, with := message, headers
			if tt.header != "" {
				with = append(slices.Clone(headers), "Traceparent", tt.header)
			}
			switch {
			case tt.meta != "" && era == "modern":
				sent = strings.Replace(message, `"_meta":{`, `"_meta":{"traceparent":"`+tt.meta+`",`, 1)
			case tt.meta != "":
				sent = strings.Replace(message, `"params":{`, `"params":{"_meta":{"traceparent":"`+tt.meta+`"},`, 1)
			}
			if r := at.do("POST", sent, with...); !strings.Contains(r.raw, "hi") {
				t.Fatalf("%s, %s: %d %s", era, name, r.status, r.raw)
			}
			tr.mu.Lock()
			call := tr.got[len(tr.got)-1]
			tr.mu.Unlock()
			<-over
			mu.Lock()
			if len(spans) != tt.spans {
				t.Errorf("%s, %s: got %d spans, want %d", era, name, len(spans), tt.spans)
			}
			for _, s := range spans {
				if s.Parent != tt.parent || tt.nested != (call.Parent.SpanID == s.SpanID && call.Parent.Local && call.Call.TraceID == s.TraceID) {
					t.Errorf("%s, %s: got %+v of a call %+v", era, name, s, call.Parent)
				}
			}
			mu.Unlock()
			if tt.meta != "" && call.Parent != aside {
				t.Errorf("%s, %s: the call belongs to %+v, want %+v", era, name, call.Parent, aside)
			}
		}
	}
}

// Every call is traced, however it ends.
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

// The code of a traced call is the one in its answer: each era has its own, and a call of a
// tool as a method with wrong arguments has one too.
func TestCodeOfATracedCall(t *testing.T) {
	tr := &tracer{}
	ty := newToy(t, func(cfg *mcp.Config) { cfg.Trace = tr })
	addMethods(ty.Server)
	mcp.AddTool(ty.Server, mcp.Tool{Name: "busy"}, func(context.Context, mcp.Call, noInput) (*mcp.Result, error) {
		return nil, wire.Errorf(wire.RateLimited, "busy")
	})
	old, young := ty.connect(t), ty.connect(t)
	old.greet(revLegacy)
	for _, tt := range []struct {
		c       *client
		message string
		want    int
	}{
		{old, call("7", "busy", `{}`), -32003},
		{young, modern("7", "tools/call", `"name":"busy","arguments":{},`), -31003},
		{old, `{"jsonrpc":"2.0","id":7,"method":"say","params":{"text":5}}`, -32602},
		{young, modern("7", "say", `"text":5,`), -32602},
	} {
		tt.c.send(tt.message)
		got := tt.c.next()
		tr.mu.Lock()
		traced := tr.got[len(tr.got)-1]
		tr.mu.Unlock()
		if got.Error == nil || got.Error.Code != tt.want || traced.Code != tt.want {
			t.Errorf("%s: the answer is %s and the traced code %d, want %d", tt.message, got.raw, traced.Code, tt.want)
		}
	}
}
