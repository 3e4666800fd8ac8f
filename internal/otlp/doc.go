// Package otlp sends spans to a collector of OpenTelemetry, by OTLP/HTTP in its
// JSON encoding (opentelemetry.io/docs/specs/otlp). It does only what belljar
// needs: docs/decisions/2026-11-22-otel.md says why it is not the
// official exporter.
//
// Add never waits: spans wait in a bounded queue, and one goroutine sends them in
// groups. Spans that find no room, or that no collector takes, are counted.
package otlp
