package otlp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/otlp"
	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// request is the body of a request to a collector.
type request struct {
	ResourceSpans []struct {
		Resource   struct{ Attributes []attr }
		ScopeSpans []struct {
			Scope struct{ Name, Version string }
			Spans []span
		}
	}
}

type attr struct {
	Key   string
	Value map[string]any
}

type span struct {
	TraceID           string `json:"traceId"`
	SpanID            string `json:"spanId"`
	ParentSpanID      string `json:"parentSpanId"`
	TraceState        string
	Flags             int
	Name              string
	Kind              int
	StartTimeUnixNano string
	EndTimeUnixNano   string
	Attributes        []attr
	Status            struct {
		Code    int
		Message string
	}
}

// collector answers each request with a function, which gets the number of the request,
// from 1.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []span
	last  request
}

func newCollector(t *testing.T, answer func(n int, w http.ResponseWriter) (took bool)) *collector {
	t.Helper()
	c := &collector{}
	var n atomic.Int64
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req request
		err := json.NewDecoder(r.Body).Decode(&req)
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Tenant") != "a" {
			t.Errorf("%s %v: %v", r.URL, r.Header, err)
		}
		if !answer(int(n.Add(1)), w) {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last = req
		c.spans = append(c.spans, req.ResourceSpans[0].ScopeSpans[0].Spans...)
	}))
	t.Cleanup(c.Close)
	return c
}

func takes(int, http.ResponseWriter) bool { return true }

func start(t *testing.T, c *collector) *otlp.Exporter {
	t.Helper()
	url, err := otlp.Endpoint(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	e, err := otlp.Start(t.Context(), otlp.Config{
		URL: url, Headers: map[string]string{"Tenant": "a"}, Scope: "scope", ScopeVersion: "1",
		Resource: []otlp.Attr{{Key: "service.name", Value: "x"}},
		Pause:    func(context.Context, time.Duration) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A span reaches the collector with all its fields, and Close waits for it.
func TestExport(t *testing.T) {
	c := newCollector(t, takes)
	e := start(t, c)
	at := time.Unix(1_700_000_000, 123)
	e.Add(otlp.Span{
		TraceID: [16]byte{0: 0xab, 15: 1}, ID: [8]byte{7: 2}, Parent: [8]byte{7: 3}, Remote: true, State: "v=1",
		Name: `a "name"`, Kind: otlp.Server, Start: at, End: at.Add(time.Second),
		Attrs:  []otlp.Attr{{Key: "s", Value: "text"}, {Key: "n", Value: int64(1 << 60)}, {Key: "b", Value: true}},
		Failed: true, Message: "why",
	}, otlp.Span{Name: "child", Kind: otlp.Internal, Start: at, End: at})
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := span{
		TraceID: "ab000000000000000000000000000001", SpanID: "0000000000000002", ParentSpanID: "0000000000000003", TraceState: "v=1",
		Flags: 0x301, Name: `a "name"`, Kind: 2, StartTimeUnixNano: "1700000000000000123", EndTimeUnixNano: "1700000001000000123",
		Attributes: []attr{
			{"s", map[string]any{"stringValue": "text"}}, {"n", map[string]any{"intValue": "1152921504606846976"}}, {"b", map[string]any{"boolValue": true}},
		},
	}
	want.Status.Code, want.Status.Message = 2, "why"
	if len(c.spans) != 2 || cmp.Diff(want, c.spans[0]) != "" {
		t.Errorf("got %d spans: %s", len(c.spans), cmp.Diff(want, c.spans[0]))
	}
	if r := c.last.ResourceSpans[0]; len(r.Resource.Attributes) != 1 || r.ScopeSpans[0].Scope.Name != "scope" {
		t.Errorf("got %+v", r)
	}
	if sent, dropped := e.Counts(); sent != 2 || dropped != 0 {
		t.Errorf("sent %d, dropped %d", sent, dropped)
	}
	e.Add(otlp.Span{Name: "late"})
	if err := e.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "1 spans did not") {
		t.Errorf("a span after Close: got %v", err)
	}
}

// Spans that a collector may accept later are sent again. Spans that it refuses are counted
// as dropped.
func TestRetry(t *testing.T) {
	for name, tt := range map[string]struct {
		answer        func(n int, w http.ResponseWriter) bool
		sent, dropped uint64
	}{
		"later": {func(n int, w http.ResponseWriter) bool {
			if n < 3 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return n >= 3
		}, 3, 0},
		"never":   {func(_ int, w http.ResponseWriter) bool { w.WriteHeader(http.StatusTooManyRequests); return false }, 0, 3},
		"refused": {func(_ int, w http.ResponseWriter) bool { w.WriteHeader(http.StatusBadRequest); return false }, 0, 3},
		"elsewhere": {func(_ int, w http.ResponseWriter) bool {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return false
		}, 0, 3},
		"some": {func(_ int, w http.ResponseWriter) bool {
			_, _ = w.Write([]byte(`{"partialSuccess":{"rejectedSpans":"2","errorMessage":"no"}}`))
			return true
		}, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, newCollector(t, tt.answer))
			e.Add(otlp.Span{Name: "1"}, otlp.Span{Name: "2"}, otlp.Span{Name: "3"})
			err := e.Close(t.Context())
			if sent, dropped := e.Counts(); sent != tt.sent || dropped != tt.dropped || (err == nil) != (dropped == 0) {
				t.Errorf("sent %d, dropped %d (%v), want %d and %d", sent, dropped, err, tt.sent, tt.dropped)
			}
		})
	}
}

// If a collector does not answer, Add does not wait, and Close waits only until its
// deadline. Spans that the queue has no room for are counted.
func TestBounds(t *testing.T) {
	asked, release := make(chan struct{}, 64), make(chan struct{})
	c := newCollector(t, func(int, http.ResponseWriter) bool {
		asked <- struct{}{}
		<-release
		return false
	})
	e := start(t, c)
	const all = 10_000
	for range all {
		e.Add(otlp.Span{Name: "x"})
	}
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Close(ctx); err == nil || !strings.Contains(err.Error(), "10000 spans did not") {
		t.Errorf("got %v", err)
	}
	close(release)
}

func TestEndpoint(t *testing.T) {
	for address, want := range map[string]string{
		"http://127.0.0.1:4318":         "http://127.0.0.1:4318/v1/traces",
		"https://c.example/otlp/":       "https://c.example/otlp/v1/traces",
		"https://c.example/x/v1/traces": "https://c.example/x/v1/traces",
		"ftp://c.example":               "",
		"127.0.0.1:4318":                "",
		"http://":                       "",
		"http://c.example/%zz?token=a":  "",
	} {
		got, err := otlp.Endpoint(address)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q %v, want %q", address, got, err, want)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	e, err := otlp.Start(b.Context(), otlp.Config{URL: "http://127.0.0.1:1/v1/traces"})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(b.Context())
	s := otlp.Span{Name: "tools/call Bash"}
	b.ReportAllocs()
	for b.Loop() {
		e.Add(s)
	}
}
