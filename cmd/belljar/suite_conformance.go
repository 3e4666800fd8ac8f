//go:build conformance

package main

import (
	"belljar.dev/internal/conformance"
	"belljar.dev/mcp"
)

// suite returns the tools, prompts and resources that the protocol's conformance suite
// calls by name.
func suite() mcp.Suite { return new(conformance.Suite) }
