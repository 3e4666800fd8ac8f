package mcp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// If one call of a request got its trace from the request, the request keeps that trace,
// whatever other calls have in their _meta. A call that begins after its request is over
// belongs to the request's parent.
func TestSpanOfSeveralCalls(t *testing.T) {
	_, served := WithServed(t.Context())
	served.StartSpan(httptest.NewRequest(http.MethodPost, "/mcp", nil))
	sent := TraceParent{TraceID: strings.Repeat("1", 32), SpanID: strings.Repeat("2", 16), Sampled: true}
	first := served.parentOf(TraceParent{})
	served.began(Call{ID: "c-1", TraceID: first.TraceID}, TraceParent{})
	if got := served.parentOf(sent); got != sent {
		t.Errorf("got %+v, want what the client says", got)
	}
	served.began(Call{ID: "c-2", TraceID: sent.TraceID}, sent)
	span, ok := served.EndSpan()
	if !ok || span.TraceID != first.TraceID || span.SpanID != first.SpanID || span.Parent != (TraceParent{}) {
		t.Errorf("got %+v, want the span that the first call belongs to: %+v", span, first)
	}
	if got := served.parentOf(TraceParent{}); got != (TraceParent{}) {
		t.Errorf("after the end: got %+v, want none", got)
	}

	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Header.Set("Traceparent", "00-"+sent.TraceID+"-"+sent.SpanID+"-00")
	_, late := WithServed(t.Context())
	late.StartSpan(r)
	if _, ok := late.EndSpan(); ok {
		t.Error("a request without a call has a span")
	}
	if got := late.parentOf(TraceParent{}); got.TraceID != sent.TraceID || got.Sampled {
		t.Errorf("a late call belongs to %+v, want the parent of its request, which is not sampled", got)
	}
}
