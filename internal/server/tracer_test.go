package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"belljar.dev/internal/control"
	"belljar.dev/internal/front"
	"belljar.dev/internal/otlp"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

type traceInput struct {
	Text string `json:"text"`
}

func (in traceInput) Facts() policies.Facts { return policies.Facts{Command: in.Text} }

// A call becomes a span with its phases below it. The spans contain nothing of its
// arguments or its result.
func TestTracer(t *testing.T) {
	var got bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(&got, r.Body)
	}))
	defer collector.Close()
	p, err := policies.Parse("p.yaml", []byte(`version: 1
profiles: {box: {}}
rules: [{id: all, match: {tool: "*"}, decision: allow}, {id: no, match: {tool: say, command: ["rm **"]}, decision: deny}]
audit: {otlp: "`+collector.URL+`"}
`))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	g := &gate{}
	g.now.Store(p)
	tr, err := newTracer(t.Context(), p, true, log)
	if err != nil {
		t.Fatal(err)
	}
	server, err := mcp.New(mcp.Config{Gate: g, Trace: tr})
	if err != nil {
		t.Fatal(err)
	}
	mcp.AddTool(server, mcp.Tool{Name: "say"}, func(_ context.Context, call mcp.Call, in traceInput) (*mcp.Result, error) {
		defer call.Phase(mcp.PhaseRun)()
		return mcp.Text("answer to %s", in.Text), nil
	})
	session, err := server.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"greeting-of-mine", "rm greeting-of-mine"} {
		if _, err := server.Call(t.Context(), session, "say", json.RawMessage(`{"text":"`+text+`"}`)); err != nil {
			t.Fatal(err)
		}
	}
	const trace, span, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "b7ad6b7169203331"
	tr.requested(front.RequestSpan{
		Span: mcp.Span{TraceID: trace, SpanID: span, Parent: mcp.TraceParent{TraceID: trace, SpanID: parent, Sampled: true}},
		HTTP: "POST", Route: "/mcp", Status: http.StatusOK,
	})
	tr.close(t.Context(), log)
	session.Close()
	text := got.String()
	for want, n := range map[string]int{
		`"name":"tools/call say"`: 2, `"name":"policy.decide"`: 2, `"name":"sandbox.run"`: 1, `"parentSpanId"`: 4,
		`"name":"POST /mcp"`: 1, `"traceId":"` + trace + `","spanId":"` + span + `"`: 1, `"parentSpanId":"` + parent + `"`: 1,
		`{"key":"http.response.status_code","value":{"intValue":"200"}}`:         1,
		`{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}}`: 2,
		`{"key":"mcp.method.name","value":{"stringValue":"tools/call"}}`:         2,
		`{"key":"network.transport","value":{"stringValue":"pipe"}}`:             2,
		`{"key":"belljar.verdict","value":{"stringValue":"deny"}}`:               1,
		`{"key":"error.type","value":{"stringValue":"tool_error"}}`:              1,
		`"status":{"code":2}`: 1, `{"key":"service.name","value":{"stringValue":"belljar"}}`: 1,
		"greeting": 0, session.ID(): 0, control.ShortID(session.ID()): 2,
	} {
		if c := strings.Count(text, want); c != n {
			t.Errorf("%s stands there %d times, want %d:\n%s", want, c, n, text)
		}
	}
}

// A server over HTTP sends the span of a request that brought a call, as the parent of the
// span of the call.
func TestRequestsAreTraced(t *testing.T) {
	var mu sync.Mutex
	parents := make(map[string][2]string) // ID of a span and ID of its parent, by the name of the span
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var sent struct {
			ResourceSpans []struct {
				ScopeSpans []struct {
					Spans []struct{ Name, SpanID, ParentSpanID string }
				}
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, s := range sent.ResourceSpans[0].ScopeSpans[0].Spans {
			parents[s.Name] = [2]string{s.SpanID, s.ParentSpanID}
		}
	}))
	defer collector.Close()
	e := newEstate(t)
	put(t, e.policy, estatePolicy+e.tenants("")+`audit: {otlp: "`+collector.URL+`"}`)
	cfg := e.config()
	cfg.Trace = true
	e.serve(cfg)
	if got := e.call("a", "/mcp", "ListBgTasks", map[string]any{}); !strings.Contains(got, "task") {
		t.Fatal(got)
	}
	e.closed()
	request, call := parents["POST /mcp"], parents["tools/call ListBgTasks"]
	if request[0] == "" || request[1] != "" || call[1] != request[0] {
		t.Errorf("got %v, want the call below its request", parents)
	}
}

// If the policy leaves it to them, the variables of OpenTelemetry name the collector.
func TestCollector(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"http://localhost:4318/v1/traces":       {},
		"http://c.example/v1/traces k=v w":      {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c.example", "OTEL_EXPORTER_OTLP_HEADERS": "k=v%20w"},
		"http://c.example/exact a=2":            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c.example/exact", "OTEL_EXPORTER_OTLP_HEADERS": "a=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": " a = 2 ,junk"},
		"otlp: \"c.example\" is not an http or": {"OTEL_EXPORTER_OTLP_ENDPOINT": "c.example"},
	} {
		w, cfg := want, otlp.Config{}
		err := collector(&cfg, func(name string) string { return env[name] })
		got := cfg.URL
		for key, value := range cfg.Headers {
			got += " " + key + "=" + value
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, w) {
			t.Errorf("%v: got %s, want %s", env, got, w)
		}
	}
}
