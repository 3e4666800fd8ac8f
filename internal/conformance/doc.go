// Package conformance contains the tools, resources and prompts that the protocol's
// conformance suite calls by name (README of @modelcontextprotocol/conformance). With
// Config.Suite, a server of package mcp serves them in addition to its own, so that the
// suite tests the transports, eras and limits that real tools have.
//
// suite.go contains those that package mcp can express. Those that only the go-sdk can
// express, for example audio or sampling, are registered with the go-sdk (tools.go,
// tasks.go).
//
// The belljar that people install does not contain this package: scripts/conformance
// builds a belljar with it, by the build tag conformance.
package conformance
