//go:build !conformance

package main

import "belljar.dev/mcp"

// suite returns nil: only the belljar that scripts/conformance builds has the tools,
// prompts and resources that the protocol's conformance suite calls by name.
func suite() mcp.Suite { return nil }
