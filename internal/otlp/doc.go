// Package otlp sends spans to a collector of OpenTelemetry, by OTLP/HTTP in its JSON
// encoding (opentelemetry.io/docs/specs/otlp). It contains only what belljar needs:
// docs/decisions/2026-11-22-otel.md gives the reason not to use the official exporter.
//
// Add never waits: spans wait in a bounded queue, and one goroutine sends them in groups.
// Spans that the queue has no room for, or that the collector does not accept, are counted.
package otlp
