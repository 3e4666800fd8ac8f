package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/control"
	"belljar.dev/internal/front"
	"belljar.dev/internal/otlp"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// flushing is the time in which the spans that wait are sent at the end.
const flushing = 3 * time.Second

// tracer makes spans of calls, by the conventions of OpenTelemetry for MCP
// (github.com/open-telemetry/semantic-conventions-genai, status Development). No span
// contains what an agent sent or what a command wrote.
type tracer struct {
	exporter *otlp.Exporter
	stdio    bool
}

// openTracer opens the tracer if the policy names a collector in audit.otlp.
func (s *Server) openTracer(ctx context.Context) error {
	if !s.cfg.Trace {
		return nil
	}
	t, err := newTracer(ctx, s.Policy, !s.cfg.http(), s.Log)
	if err != nil || t == nil {
		return err
	}
	s.tracer = t
	s.opened.Do(func() { t.close(ctx, s.Log) })
	return nil
}

// newTracer returns the tracer of a policy; nil if the policy names no collector.
func newTracer(ctx context.Context, policy *policies.Policy, stdio bool, log *slog.Logger) (*tracer, error) {
	a, _ := policy.Audit()
	if a.OTLP == "" {
		return nil, nil //nolint:nilnil // a nil tracer traces nothing
	}
	cfg := otlp.Config{Scope: "belljar.dev", ScopeVersion: buildinfo.Version(), Log: log}
	var err error
	if a.OTLP == policies.OTLPStandard {
		err = collector(&cfg, os.Getenv)
	} else {
		cfg.URL, err = otlp.Endpoint(a.OTLP)
	}
	if err != nil {
		return nil, fmt.Errorf("trace calls: %w", err)
	}
	cfg.Resource = []otlp.Attr{
		{Key: "service.name", Value: serviceName(os.Getenv)},
		{Key: "service.version", Value: buildinfo.Version()},
		{Key: "process.pid", Value: int64(os.Getpid())},
		{Key: "telemetry.sdk.name", Value: "belljar"},
		{Key: "telemetry.sdk.language", Value: "go"},
	}
	e, err := otlp.Start(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("trace calls: %w", err)
	}
	return &tracer{e, stdio}, nil
}

// collector sets the URL and the headers of the collector from the variables that
// OpenTelemetry defines (opentelemetry.io/docs/specs/otel/protocol/exporter).
func collector(cfg *otlp.Config, getenv func(string) string) error {
	cfg.Headers = make(map[string]string)
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		for pair := range strings.SplitSeq(getenv(name), ",") {
			key, value, ok := strings.Cut(pair, "=")
			if !ok {
				continue
			}
			plain, err := url.PathUnescape(strings.TrimSpace(value))
			if err != nil {
				return fmt.Errorf("read %s: the value of %s: %w", name, key, err)
			}
			cfg.Headers[strings.TrimSpace(key)] = plain
		}
	}
	if exact := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); exact != "" {
		cfg.URL = exact // unchanged, without an appended path
		return nil
	}
	address := getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	if address == "" {
		address = "http://localhost:4318"
	}
	var err error
	cfg.URL, err = otlp.Endpoint(address)
	return err
}

func serviceName(getenv func(string) string) string {
	if name := getenv("OTEL_SERVICE_NAME"); name != "" {
		return name
	}
	return "belljar"
}

// close sends the spans that wait.
func (t *tracer) close(ctx context.Context, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushing)
	defer cancel()
	if err := t.exporter.Close(ctx); err != nil {
		log.Warn("not all calls were traced", "err", err)
	}
}

// Traced makes the spans of a call: one for the call, and one for each of its phases.
func (t *tracer) Traced(c mcp.Traced) {
	if c.Parent.TraceID != "" && !c.Parent.Sampled {
		return // the client that began the trace did not sample it
	}
	s := otlp.Span{
		ID: newSpanID(), State: c.Parent.State, Name: "tools/call " + c.Call.Tool, Kind: otlp.Server,
		Start: c.Start, End: c.End, Attrs: t.attributes(c),
	}
	if _, err := hex.Decode(s.TraceID[:], []byte(c.Call.TraceID)); err != nil {
		return // does not happen: a trace ID is always valid
	}
	if _, err := hex.Decode(s.Parent[:], []byte(c.Parent.SpanID)); err == nil && c.Parent.SpanID != "" {
		s.Remote = !c.Parent.Local
	}
	if kind := errorType(c); kind != "" {
		s.Failed = true
		s.Attrs = append(s.Attrs, otlp.Attr{Key: "error.type", Value: kind})
	}
	spans := []otlp.Span{s}
	for _, p := range c.Phases {
		spans = append(spans, otlp.Span{
			TraceID: s.TraceID, ID: newSpanID(), Parent: s.ID, State: s.State,
			Name: p.Name, Kind: otlp.Internal, Start: p.Start, End: p.End,
		})
	}
	t.exporter.Add(spans...)
}

// requested makes the span of an HTTP request that brought a call.
func (t *tracer) requested(r front.RequestSpan) {
	s := otlp.Span{
		State: r.Parent.State, Name: strings.TrimSpace(r.HTTP + " " + r.Route), Kind: otlp.Server, Start: r.Start, End: r.End,
		Failed: r.Status >= http.StatusInternalServerError,
		Attrs: []otlp.Attr{
			{Key: "http.request.method", Value: r.HTTP},
			{Key: "http.route", Value: r.Route},
			{Key: "http.response.status_code", Value: int64(r.Status)},
		},
	}
	_, bad := hex.Decode(s.TraceID[:], []byte(r.TraceID))
	_, badID := hex.Decode(s.ID[:], []byte(r.SpanID))
	_, badParent := hex.Decode(s.Parent[:], []byte(r.Parent.SpanID)) // without a parent, the ID stays zero
	if errors.Join(bad, badID, badParent) != nil {
		return // does not happen: the IDs are always valid
	}
	s.Remote = r.Parent.SpanID != ""
	t.exporter.Add(s)
}

// attributes returns the attributes of a call's span. An agent chooses none of them except
// the name of the tool, and a tool with this name exists.
func (t *tracer) attributes(c mcp.Traced) []otlp.Attr {
	transport := "tcp"
	if t.stdio {
		transport = "pipe"
	}
	attrs := []otlp.Attr{
		{Key: "mcp.method.name", Value: "tools/call"},
		{Key: "gen_ai.operation.name", Value: "execute_tool"},
		{Key: "gen_ai.tool.name", Value: c.Call.Tool},
		{Key: "mcp.session.id", Value: control.ShortID(c.Call.Session.ID())},
		{Key: "network.transport", Value: transport},
		{Key: "belljar.call.id", Value: c.Call.ID},
		{Key: "belljar.tenant", Value: c.Call.Session.Tenant()},
		{Key: "belljar.verdict", Value: c.Decision.Verdict.String()},
	}
	if c.Decision.Rule != "" {
		attrs = append(attrs, otlp.Attr{Key: "belljar.rule", Value: c.Decision.Rule})
	}
	if profile := c.Decision.Grant.Profile(); profile != "" {
		attrs = append(attrs, otlp.Attr{Key: "belljar.profile", Value: profile})
	}
	if c.Result != nil {
		if m, ok := c.Result.Structured.(mcp.Measured); ok {
			if u := m.Usage(); u.Exit != nil {
				attrs = append(attrs, otlp.Attr{Key: "process.exit.code", Value: int64(*u.Exit)})
			}
		}
	}
	return attrs
}

// errorType returns the class of error with which a call ended; empty if the call
// succeeded.
func errorType(c mcp.Traced) string {
	switch {
	case c.Code != 0:
		return strconv.Itoa(c.Code)
	case c.Err != nil, c.Result != nil && c.Result.IsError:
		return "tool_error"
	}
	return ""
}

func newSpanID() (id [8]byte) {
	rand.Read(id[:])
	return id
}

// tracers passes each call to several tracers.
type tracers []mcp.Tracer

// Traced passes a call to all tracers.
func (t tracers) Traced(c mcp.Traced) {
	for _, one := range t {
		one.Traced(c)
	}
}

// traced returns the tracer of those that are not nil; nil if all are nil.
func traced(t *tracer, m *monitor, n *callCounts) mcp.Tracer {
	var all tracers // a nil pointer in an interface is not nil, so only non-nil tracers are added
	if t != nil {
		all = append(all, t)
	}
	if m != nil {
		all = append(all, m.meters)
	}
	if n != nil {
		all = append(all, n)
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}
